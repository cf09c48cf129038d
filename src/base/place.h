// A place in the source, as errors name it.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

namespace lockstep {

/// "comm.cc:178". The folder is left out because it belongs to the machine that built the program.
inline std::string place_of(std::source_location at) {
  std::string_view file = at.file_name();
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  return std::string(file) + ":" + std::to_string(at.line());
}

}  // namespace lockstep
