// Convolution and dense layers, and products of matrices, on the CPU, by oneDNN.
#pragma once

#include <dnnl.hpp>
#include <memory>

#include "src/device/device.h"

namespace lockstep {

/// `engine` must outlive the plan. Throws oneDNN's own error if it has no kernel for bf16.
std::unique_ptr<AffinePlan> make_onednn_convolution(const dnnl::engine& engine,
                                                    const ConvolutionSpec& spec);
std::unique_ptr<AffinePlan> make_onednn_dense(const dnnl::engine& engine, const DenseSpec& spec);
std::unique_ptr<ProductPlan> make_onednn_product(const dnnl::engine& engine,
                                                 const ProductSpec& spec);

}  // namespace lockstep
