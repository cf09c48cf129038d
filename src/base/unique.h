// Names that nothing else has, from the kernel's random numbers.
#pragma once

#include <string>

namespace lockstep {

/// `bytes` random bytes (at most 256) in hexadecimal digits. Any thread.
std::string unique_hex(std::size_t bytes);

}  // namespace lockstep
