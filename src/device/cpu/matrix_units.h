// Weights gradients of bf16 convolutions on the processor's matrix units (AMX).
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep {

/// Whether this processor has bf16 matrix units and ONEDNN_MAX_CPU_ISA allows them.
bool has_matrix_units();

/// Whether there is a plan for `spec` on a processor with matrix units: bf16, training, two
/// dimensions, stride and dilation 1, one group.
inline bool matrix_units_serve(const ConvolutionSpec& spec) {
  return spec.input.training && spec.input.type == Type::bf16 && spec.stride == 1 &&
         spec.groups == 1 && spec.dilation == 1 && !spec.one_dimensional;
}

/// A plan that computes the weights gradient on matrix units. The bits do not depend on the number
/// of threads. `others`, a plan for the same spec, computes the other passes. Requires
/// has_matrix_units() and matrix_units_serve(spec).
std::unique_ptr<AffinePlan> make_matrix_units_convolution(std::unique_ptr<AffinePlan> others,
                                                          const ConvolutionSpec& spec);

}  // namespace lockstep
