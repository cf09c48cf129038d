// Convolution and dense layers on a GPU, by cuDNN.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {
std::unique_ptr<AffinePlan> make_cuda_convolution(const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_cuda_dense(const DenseSpec& spec);
}  // namespace lockstep
