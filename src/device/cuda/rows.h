// Kernels that an affine plan needs besides its library's.
#pragma once

#include <cstddef>

#include "src/device/device.h"

namespace lockstep::cuda {

/// Enqueues to = from, of the same count, between any two floating-point types.
void convert(Stream& stream, View from, View to);

/// Enqueues y = y + b, then ReLU if `relu`. b (fp32) is as long as y's last extent, or empty: 0.
void add_bias(Stream& stream, View y, View b, bool relu);

/// Enqueues sums = the sum of the rows of `rows`, each as long as `sums` (fp32). The order of
/// additions depends only on the shape. `scratch` has sum_rows_bytes().
void sum_rows(Stream& stream, View rows, View sums, void* scratch);
std::size_t sum_rows_bytes(std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::cuda
