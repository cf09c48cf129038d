// Rounding for 16-bit messages with error feedback.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "src/base/view.h"

namespace lockstep {

/// The largest finite number of T.
template <class T>
inline constexpr float kLargest = std::numeric_limits<float>::max();
template <>
inline constexpr float kLargest<Bfloat16> = 0x1.fep127f;
template <>
inline constexpr float kLargest<Half> = 65504;

/// dispatch() for the types of messages: fp32, bf16 and fp16.
template <class F>
void dispatch_wire(Type type, F&& f) {
  if (type == Type::f16) return f(static_cast<Half*>(nullptr));
  dispatch(type, f);
}

/// to[i] = values[i] + residual[i], rounded to the nearest T, ties to even. residual[i] = the
/// rounding error. A number that overflows T becomes the largest number. Infinity and NaN are kept,
/// and set residual[i] = 0. With T = float, `residual` is not touched. The arrays do not overlap.
template <class T>
void round_with_feedback(const float* __restrict values, float* __restrict residual,
                         T* __restrict to, std::int64_t count) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = kLargest<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      to[i] = values[i];
    } else {
      const float value = values[i] + residual[i], size = std::fabs(value);
      const float held = std::copysign(size > kMost ? kMost : size, value);
      to[i] = size < kInfinity ? held : value;
      const float sent = to[i];
      residual[i] = std::fabs(sent) < kInfinity ? value - sent : 0.0f;
    }
  }
}

/// to[i] = from[i].
template <class T>
void widen(const T* __restrict from, float* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace lockstep
