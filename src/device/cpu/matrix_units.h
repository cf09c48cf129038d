// Weights gradients of bf16 convolutions on the processor's matrix units (AMX).
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep {

/// Whether this processor multiplies bf16 matrices, and oneDNN is not told to do without
/// (ONEDNN_MAX_CPU_ISA).
bool has_matrix_units();

/// Whether there is a plan for it: bf16, training, two dimensions, stride and dilation 1, one
/// group. The processor is not asked.
bool matrix_units_serve(const ConvolutionSpec& spec);

/// A plan whose weights gradient goes by the matrix units, with the same bits on any number of
/// threads; `others` answers the other passes and must be for the same spec. Where
/// has_matrix_units() and matrix_units_serve(spec).
std::unique_ptr<AffinePlan> make_matrix_units_convolution(std::unique_ptr<AffinePlan> others,
                                                          const ConvolutionSpec& spec);

}  // namespace lockstep
