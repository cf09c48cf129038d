// e^x and the natural logarithm with the same bits on every processor and with every C library:
// each step is a fused multiply-add or another operation that is rounded correctly. Kernels with
// them are vectorised, and the library's functions cost up to ten times as much.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "src/base/host_device.h"

namespace lockstep {

/// e^x = factor * 2^power, with a factor between 0.7 and 1.42.
struct ScaledExponential {
  float factor;
  std::int32_t power;

  /// |x| is at most 104. The factor of NaN is NaN, and its power arbitrary.
  HOST_DEVICE explicit ScaledExponential(float x) {
    constexpr float kRound = 12582912;  // 1.5 * 2^23: sums with it are whole
    constexpr float kLog2 = 0.693147182f, kRestOfLog2 = -1.90465421e-9f;
    const float shifted = std::fma(x, 1.44269502f, kRound), whole = shifted - kRound;
    const float r = std::fma(whole, -kRestOfLog2, std::fma(whole, -kLog2, x));
    // e^r = 1 + r + r^2 * q(r). The error of q adds 4e-9 to the relative error.
    float q = std::fma(1.38145965e-3f, r, 8.36871751e-3f);
    q = std::fma(q, r, 4.1668389e-2f);
    q = std::fma(q, r, 0.166665211f);
    q = std::fma(q, r, 0.49999994f);
    factor = std::fma(std::fma(q, r, 1.0f), r, 1.0f);
    power = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kRound);
  }
};

/// 2^power for powers from -126 to 127.
HOST_DEVICE inline float two_to(std::int32_t power) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(power + 127) << 23);
}

/// e^x, within 1 unit in the last place. Overflow gives Inf. NaN stays NaN.
HOST_DEVICE inline float exponential(float x) {
  x = x > 89 ? 89.0f : x;
  x = x < -104 ? -104.0f : x;
  const ScaledExponential e(x);
  const std::int32_t half = e.power >> 1;  // 2^power may be no float
  return e.factor * two_to(half) * two_to(e.power - half);
}

/// e^-x for x of 0 or more, within 1 unit in the last place. From 87 on it is e^-87, which is no
/// denormal number. NaN stays NaN.
HOST_DEVICE inline float exp_of_negative(float x) {
  const ScaledExponential e(-std::min(x, 87.0f));
  // A product, because an exponent added to the bits of a GPU's NaN, 0x7fffffff, gives a number.
  return e.factor * two_to(e.power);
}

/// The natural logarithm, within 0.51 units in the last place. That of 0 is -Inf; that of negative
/// numbers and NaN is NaN.
HOST_DEVICE inline float natural_log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!(x > 0)) return x == 0 ? -kInfinity : std::numeric_limits<float>::quiet_NaN();
  if (x == kInfinity) return x;
  // x = m * 2^power with m between the square roots of 1/2 and 2.
  constexpr double kRoot = 0.70710678118654752, kLog2 = 0.69314718055994531;
  const auto bits = std::bit_cast<std::int64_t>(static_cast<double>(x));
  const std::int64_t power = (bits - std::bit_cast<std::int64_t>(kRoot)) >> 52;
  const auto m = std::bit_cast<double>(bits - power * (std::int64_t{1} << 52));
  const double s = (m - 1) / (m + 1), square = s * s;  // log m = 2 (s + s^3 / 3 + s^5 / 5 ...)
  double sum = 1.0 / 15;
  for (int n = 13; n > 0; n -= 2) sum = std::fma(sum, square, 1.0 / n);
  return static_cast<float>(std::fma(static_cast<double>(power), kLog2, 2 * s * sum));
}

}  // namespace lockstep
