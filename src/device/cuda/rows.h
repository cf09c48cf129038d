// What an affine plan needs beside its library's kernels, as bodies for src/device/each.h.
#pragma once

#include <cstddef>

#include "src/device/device.h"

namespace lockstep::cuda {

/// Gives to = from, of the same count, between any two floating-point types.
void convert(Stream& stream, View from, View to);

/// Gives y = y + b, or the maximum of that and 0: y is rows of b's length, b fp32.
void add_bias(Stream& stream, View y, View b, bool relu);

/// Gives sums = the sum of the rows of `rows`, each as long as `sums` (fp32). In one order, which
/// depends on the shape alone. `scratch` has sum_rows_bytes().
void sum_rows(Stream& stream, View rows, View sums, void* scratch);
std::size_t sum_rows_bytes(std::int64_t rows, std::int64_t columns);

}  // namespace lockstep::cuda
