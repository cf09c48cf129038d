// The plans of a GPU's operations.
#pragma once

#include <memory>

#include "src/device/cuda/plan.h"
#include "src/device/device.h"

namespace lockstep::cuda {

/// Convolution and dense layers, with the plans that choose() returns. Throws Error if no library
/// has a kernel.
std::unique_ptr<AffinePlan> make_convolution(const Libraries& libraries,
                                             const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_dense(const Libraries& libraries, const DenseSpec& spec);

/// By the plan of choose(), or else by a row-wise kernel.
std::unique_ptr<ProductPlan> make_product(const Libraries& libraries, const ProductSpec& spec);

// By row-wise kernels, which also run on the CPU.
std::unique_ptr<ProductPlan> make_row_product(const ProductSpec& spec);
std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec);

}  // namespace lockstep::cuda
