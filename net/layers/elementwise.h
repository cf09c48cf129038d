// Elementwise work that several layers share.
#pragma once

#include "src/device/device.h"

namespace lockstep {

/// Gives to = from, of the same shape and floating-point type.
void copy(Stream& stream, View from, View to);

/// Gives dx = dy where y > 0, else 0: the ReLU's part of a gradient. dx may be dy.
void mask_relu(Stream& stream, View y, View dy, View dx);

}  // namespace lockstep
