#include "src/error.h"

namespace lockstep {

void fail_internally(std::string_view what, std::source_location at) {
  throw Error("internal error: " + std::string(what) + " (" + at.file_name() + ":" +
              std::to_string(at.line()) + ")");
}

}  // namespace lockstep
