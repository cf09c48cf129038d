// Checksums of numbers in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/crc32c.h"

namespace lockstep {

/// crc32c() of the bytes of `values`. `before`: of the bytes in front of them.
template <class T>
std::uint32_t crc32c_of(const std::vector<T>& values, std::uint32_t before = 0) {
  return crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}, before);
}

}  // namespace lockstep
