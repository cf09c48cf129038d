// Fast convolution by Winograd's algorithm on plain N, H, W, C activations, in fp32 arithmetic
// whatever their type. Sources: see src/cpu/cook_toom.h.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {

/// Whether make_winograd_convolution() has a plan for `spec`: filters of 3x3 or 5x5 at stride 1,
/// channels and filters in whole registers. A pure function of the spec and the build.
bool winograd_serves(const ConvolutionSpec& spec);

std::unique_ptr<AffinePlan> make_winograd_convolution(const ConvolutionSpec& spec);

}  // namespace lockstep
