// The loops of our own that gain by wide registers. Their bodies (src/device/cpu/kernels_body.h)
// are compiled once for each instruction set, in a namespace of its name, whatever the rest of the
// program is compiled for; a device takes those of its set (src/device/cpu/instruction_set.h).
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep {

struct Kernels {
  int lanes;           ///< floats in a register
  bool bf16_products;  ///< of Winograd's algorithm for bf16 activations, 3x3, even channels
  /// Winograd's algorithm with tiles of 2x2 and of 4x4 outputs, for filters of 3x3 and 5x5 at
  /// stride 1 with channels and filters in whole registers; null for all else.
  std::unique_ptr<AffinePlan> (*winograd2)(const ConvolutionSpec&);
  std::unique_ptr<AffinePlan> (*winograd4)(const ConvolutionSpec&);
  /// A plan whose weights gradient goes by lines of the filter, for few channels, in fp32 at stride
  /// 1 with filters in whole registers; `others`, a plan for the same spec, answers the other
  /// passes. `others` itself for all else.
  std::unique_ptr<AffinePlan> (*lines)(std::unique_ptr<AffinePlan> others, const ConvolutionSpec&);
  std::unique_ptr<ResponseNormPlan> (*response_norm)(const ResponseNormSpec&);
};

/// What the whole program is compiled for (LOCKSTEP_MARCH).
namespace baseline {
const Kernels& kernels();
}
namespace avx2 {
const Kernels& kernels();
}
namespace avx512 {
const Kernels& kernels();
}
namespace avx512_bf16 {
const Kernels& kernels();
}

}  // namespace lockstep
