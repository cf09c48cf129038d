// Convolution and dense layers on the CPU, by oneDNN.
#pragma once

#include <dnnl.hpp>
#include <memory>

#include "src/device/device.h"

namespace lockstep {

/// `engine` must outlive the plan. Throws oneDNN's own error if it has no kernel for bf16.
std::unique_ptr<AffinePlan> make_onednn_convolution(const dnnl::engine& engine,
                                                    const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_onednn_dense(const dnnl::engine& engine, const DenseSpec& spec);

}  // namespace lockstep
