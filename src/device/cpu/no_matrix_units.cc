// Processors that are not x86 have no matrix units of this kind.
#include "src/base/check.h"
#include "src/device/cpu/matrix_units.h"

namespace lockstep {

bool has_matrix_units() { return false; }

std::unique_ptr<AffinePlan> make_matrix_units_convolution(std::unique_ptr<AffinePlan>,
                                                          const ConvolutionSpec&) {
  fail("no matrix units for this convolution");
}

}  // namespace lockstep
