#include "src/base/error.h"

#include "src/base/place.h"

namespace lockstep {

void fail_internally(std::string_view what, std::source_location at) {
  throw Error("internal error: " + std::string(what) + " (" + place_of(at) + ")");
}

}  // namespace lockstep
