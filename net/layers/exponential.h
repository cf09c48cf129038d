// e^-x as arithmetic, so that kernels are vectorised.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "src/base/host_device.h"

namespace lockstep {

/// e^-x for x of 0 or more, as arithmetic alone: the library's functions are not vectorised, and
/// cost ten times as much. Good to 2e-7 of itself; from 87 on it is e^-87. NaN stays NaN.
HOST_DEVICE inline float exp_of_negative(float x) {
  constexpr float kLog2 = 1.44269504f, kRound = 12582912;  // 1.5 * 2^23: sums with it are whole
  constexpr float kHigh = 0.693359375f, kLow = -2.12194440e-4f;  // log 2 = high + low
  x = -std::min(x, 87.0f);
  const float shifted = x * kLog2 + kRound, power = shifted - kRound;
  const float r = (x - power * kHigh) - power * kLow;
  const float sum =
      1 + r * (1 + r * (5.0000001201e-1f +
                        r * (1.6666665459e-1f +
                             r * (4.1665795894e-2f +
                                  r * (8.3334519073e-3f +
                                       r * (1.3981999507e-3f + r * 1.9875691500e-4f))))));
  // A product, because an exponent added to the bits of a GPU's NaN, 0x7fffffff, gives a number.
  const std::uint32_t two_to_power = (std::bit_cast<std::uint32_t>(shifted) + 127) << 23;
  return sum * std::bit_cast<float>(two_to_power);
}

}  // namespace lockstep
