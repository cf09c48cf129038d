// Blending of two pixel values, for photo_edits.cc and trivial_augment.cc.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep {

inline std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

/// `factor` of `value` and the rest of `other`.
inline std::uint8_t blended(std::uint8_t value, float other, float factor) {
  return to_byte(std::fma(factor, static_cast<float>(value), (1 - factor) * other));
}

}  // namespace lockstep
