// Rounding for the wire, with what it takes away kept for the next time.
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

/// to[i] = the T nearest to values[i] + kept[i], ties to even, and kept[i] = what it is short of
/// that. A number beyond all of T's becomes the largest, or where T `overflows` infinity; infinity
/// and NaN stay what they are. What is sent so keeps nothing back. With T = float, `kept` is not
/// touched. No arrays overlap.
template <class T>
void round_and_keep(const float* __restrict values, float* __restrict kept, T* __restrict to,
                    std::int64_t count, bool overflows = false) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float most = overflows ? kInfinity : kLargest<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<T, float>) {
      to[i] = values[i];
    } else {
      const float value = values[i] + kept[i], size = std::fabs(value);
      const float held = std::copysign(size > most ? most : size, value);
      to[i] = size < kInfinity ? held : value;
      const float sent = to[i];
      kept[i] = std::fabs(sent) < kInfinity ? value - sent : 0.0f;
    }
  }
}

/// to[i] = from[i].
template <class T>
void widen(const T* __restrict from, float* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace lockstep
