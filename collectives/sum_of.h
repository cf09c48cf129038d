// The canonical sum of one element (collectives/schedule.h), for the host and for kernels.
#pragma once

#include <cstdint>

#include "src/base/host_device.h"

namespace lockstep {

/// Parts that are summed in registers. A power of two: each such group is a subtree of the
/// canonical order.
inline constexpr int kSummedAtOnce = 8;

/// The parts below the right subtree of `count`: the largest power of two below it.
constexpr int left_of(int count) {
  int left = 1;
  while (2 * left < count) left *= 2;
  return left;
}

/// Sum of element `i` of the `Count` arrays from number `First` on.
template <int First, int Count, class Parts>
HOST_DEVICE float sum_of(const Parts& parts, std::int64_t i) {
  if constexpr (Count == 1) {
    return parts[First][i];
  } else {
    constexpr int left = left_of(Count);
    return sum_of<First, left>(parts, i) + sum_of<First + left, Count - left>(parts, i);
  }
}

}  // namespace lockstep
