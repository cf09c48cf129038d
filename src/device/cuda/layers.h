// The plans of a GPU's operations.
#pragma once

#include <memory>

#include "src/device/cuda/planner.h"
#include "src/device/device.h"

namespace lockstep::cuda {

/// Convolution and dense layers, with the plans that `planner` chooses. Its libraries must outlive
/// the plan. Throws Error if no library has a kernel.
std::unique_ptr<AffinePlan> make_convolution(Planner& planner, const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_dense(Planner& planner, const DenseSpec& spec);

/// By a plan of `planner`, whose libraries must outlive it, or else by a row-wise kernel.
std::unique_ptr<ProductPlan> make_product(Planner& planner, const ProductSpec& spec);

// By row-wise kernels, which also run on the CPU.
std::unique_ptr<ProductPlan> make_row_product(const ProductSpec& spec);
std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec);

}  // namespace lockstep::cuda
