// Products of matrices on GPUs.
#pragma once

#include <memory>

#include "src/device/cuda/planner.h"
#include "src/device/device.h"

namespace lockstep::cuda {

/// By a plan of `planner`, whose libraries must outlive it, or else by a row-wise kernel.
std::unique_ptr<ProductPlan> make_product(Planner& planner, const ProductSpec& spec);
/// By the row-wise kernel. It also runs on the CPU.
std::unique_ptr<ProductPlan> make_row_product(const ProductSpec& spec);

}  // namespace lockstep::cuda
