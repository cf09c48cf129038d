#include "src/base/error.h"

namespace lockstep {

std::string place_of(std::source_location at) {
  std::string_view file = at.file_name();
  file.remove_prefix(file.rfind('/') + 1);  // npos + 1 is 0
  return std::string(file) + ":" + std::to_string(at.line());
}

void fail_internally(std::string_view what, std::source_location at) {
  throw Error("internal error: " + std::string(what) + " (" + place_of(at) + ")");
}

}  // namespace lockstep
