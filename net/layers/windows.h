// The windows of a pool along one axis: where each lies, and which of them an element is in. What
// they reach over beyond the ends counts for nothing.
#pragma once

#include <algorithm>
#include <cstdint>

#include "net/layers.h"
#include "src/base/host_device.h"
#include "src/base/round_up.h"

namespace lockstep {

struct Windows {
  std::int64_t in, out, kernel, stride, pad;

  /// Where window `o` would begin if nothing ended, which may be below 0.
  HOST_DEVICE constexpr std::int64_t origin(std::int64_t o) const { return o * stride - pad; }
  /// Its first element, and the one behind its last.
  HOST_DEVICE constexpr std::int64_t begin(std::int64_t o) const {
    return origin(o) < 0 ? 0 : origin(o);
  }
  HOST_DEVICE constexpr std::int64_t end(std::int64_t o) const {
    return origin(o) + kernel < in ? origin(o) + kernel : in;
  }
  /// The first window that element `i` is in, and the one behind the last.
  HOST_DEVICE constexpr std::int64_t first(std::int64_t i) const {
    return i + pad < kernel ? 0 : (i + pad - kernel) / stride + 1;
  }
  HOST_DEVICE constexpr std::int64_t behind(std::int64_t i) const {
    const std::int64_t last = (i + pad) / stride + 1;
    return last < out ? last : out;
  }
};

/// The windows of a pool along an axis of `in` elements. Padding::same has ceil(in / stride) of
/// them, short ones at the ends; Padding::valid has only whole ones, or one if `in` is less than
/// `kernel`.
inline Windows windows_of(std::int64_t in, std::int64_t kernel, std::int64_t stride,
                          Padding padding) {
  const std::int64_t out = padding == Padding::valid ? (in - std::min(in, kernel)) / stride + 1
                                                     : ceil_div(in, stride),
                     missing = (out - 1) * stride + kernel - in;
  return {in, out, kernel, stride, std::max<std::int64_t>(missing, 0) / 2};
}

}  // namespace lockstep
