// Elementwise work that several layers share.
#pragma once

#include "src/device/device.h"

namespace lockstep {

/// Enqueues to = from, of the same shape and floating-point type.
void copy(Stream& stream, View from, View to);

/// Enqueues dx = y > 0 ? dy : 0, the gradient of a ReLU. dx may be dy.
void mask_relu(Stream& stream, View y, View dy, View dx);

}  // namespace lockstep
