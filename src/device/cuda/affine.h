// Convolution and dense layers on GPUs, with the plans that a Planner chooses.
#pragma once

#include <memory>

#include "src/device/cuda/planner.h"
#include "src/device/device.h"

namespace lockstep::cuda {

/// The libraries of `planner` must outlive the plan. Throws Error if no library has a kernel.
std::unique_ptr<AffinePlan> make_convolution(Planner& planner, const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_dense(Planner& planner, const DenseSpec& spec);

}  // namespace lockstep::cuda
