// Lockstep's own kernels that gain from wide registers. src/device/cpu/kernels_body.h is compiled
// once per instruction set, in a namespace with its name, independently of the rest of the program.
// A device uses the kernels of its set (src/device/cpu/instruction_set.h).
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep {

struct Kernels {
  int lanes;  ///< floats in a register
  /// Winograd's algorithm with tiles of 2x2 and of 4x4 outputs, for filters of 3x3 and 5x5 at
  /// stride 1 whose channels and filters fit registers. AVX-512 bf16 multiplies bf16 for 3x3
  /// filters and even channels. null: another layer.
  std::unique_ptr<AffinePlan> (*winograd2)(const ConvolutionSpec&);
  std::unique_ptr<AffinePlan> (*winograd4)(const ConvolutionSpec&);
  /// A plan that computes the weights gradient by lines of the filter, for few channels, in fp32 at
  /// stride 1 with filters in whole registers. `others`, a plan for the same spec, computes the
  /// other passes. Returns `others` itself for another layer.
  std::unique_ptr<AffinePlan> (*lines)(std::unique_ptr<AffinePlan> others, const ConvolutionSpec&);
  /// Depthwise filters of 3x3, 5x5 and 7x7 over at least 16 channels. null: another layer.
  std::unique_ptr<AffinePlan> (*depthwise)(const ConvolutionSpec&);
  std::unique_ptr<ResponseNormPlan> (*response_norm)(const ResponseNormSpec&);
  /// Any layer and any product in fp32, with the same bits on every processor
  /// (src/device/cpu/gemm_body.h).
  std::unique_ptr<AffinePlan> (*portable_convolution)(const ConvolutionSpec&);
  std::unique_ptr<AffinePlan> (*portable_dense)(const DenseSpec&);
  std::unique_ptr<ProductPlan> (*portable_product)(const ProductSpec&);
};

/// The set that the whole program is compiled for (LOCKSTEP_MARCH).
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
