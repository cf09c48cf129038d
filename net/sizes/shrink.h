// Smaller images by area: each new pixel is the mean of the rectangle that it covers.
#pragma once

#include "src/device/device.h"

namespace lockstep {

/// Enqueues `to` = `images` (both N, H, W, C of one floating-point type) at its height and width,
/// which are at most theirs. The sums are fp32, in a fixed order for each value.
void shrink(Stream& stream, View images, View to);

}  // namespace lockstep
