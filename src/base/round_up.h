// Rounding up, for the host and for kernels.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"

namespace lockstep {

/// The number of units that contain `value`, which is not negative.
template <std::integral T>
HOST_DEVICE constexpr T ceil_div(T value, std::type_identity_t<T> unit) {
  return (value + unit - 1) / unit;
}

/// The first multiple of `unit` that is not below `value`.
template <std::integral T>
HOST_DEVICE constexpr T round_up(T value, std::type_identity_t<T> unit) {
  return ceil_div(value, unit) * unit;
}

/// value / divisor, neither negative. Divisions of 32 bits are several times as fast, on a GPU
/// about ten times.
HOST_DEVICE constexpr std::int64_t quotient(std::int64_t value, std::int64_t divisor) {
  if ((value | divisor) >> 32 != 0) return value / divisor;
  return static_cast<std::uint32_t>(value) / static_cast<std::uint32_t>(divisor);
}

}  // namespace lockstep
