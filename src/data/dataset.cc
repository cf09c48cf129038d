// Members of Dataset that only some data sets replace.

#include "src/data/dataset.h"

#include "src/base/check.h"

namespace lockstep {

void Dataset::record(std::int64_t, std::uint8_t*) const {
  expect(false, "a data set without records was asked for one");
}

void Dataset::standardise(const Standard&) {
  expect(false, "a data set without whole images was asked to normalise them");
}

}  // namespace lockstep
