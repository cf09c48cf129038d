// PTX's types, and its operations of floating-point numbers that C++ has no operator for (ptx.h).
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifdef __FAST_MATH__
#error "Translated kernels need exact arithmetic. Compile them without -ffast-math."
#endif

namespace emulator {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using u128 = unsigned __int128;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using s128 = __int128;
using f32 = float;
using f64 = double;

template <class T>
inline constexpr u32 kBits = 8 * sizeof(T);
template <class T>
using Unsigned = std::make_unsigned_t<T>;

inline f32 canonical(f32 value) { return value == value ? value : std::bit_cast<f32>(0x7fffffffu); }

/// The same bits as another type.
template <class To, class From>
To as(From value) {
  if constexpr (std::is_same_v<From, f32>) return std::bit_cast<To>(canonical(value));
  return std::bit_cast<To>(value);
}

/// .ftz: a subnormal number is zero with its sign.
inline f32 flush(f32 value) {
  return std::fabs(value) < std::numeric_limits<f32>::min() ? std::copysign(0.0f, value) : value;
}

/// .sat: NaN is 0.
template <class T>
T saturate(T value) {
  return value > 0 ? std::min(value, T{1}) : T{0};
}

/// Hides a value from the compiler. It may neither know the result nor move the computation.
template <class T>
void hide(T& value) {
  asm volatile("" : "+m"(value));
}

/// The operation's value, rounded as kMode says: one of _MM_ROUND_DOWN, _UP and _TOWARD_ZERO.
template <u32 kMode, class Operation, class... Values>
auto rounded(Operation operation, Values... values) {
  const u32 before = _mm_getcsr();
  _mm_setcsr((before & ~u32{_MM_ROUND_MASK}) | kMode);
  (hide(values), ...);
  auto result = operation(values...);
  hide(result);
  _mm_setcsr(before);
  return result;
}

/// The smaller one, or the only number. -0 is smaller than 0.
template <class T>
T minimum(T a, T b) {
  if (b != b) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;  // b if a is NaN
}
template <class T>
T maximum(T a, T b) {
  return -minimum(-a, -b);
}

/// An integer that lies within To, or the nearest one that does. `value` is a whole number.
template <class To, class From>
To to_integer(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr bool kWide = sizeof(To) == 8 || sizeof(From) == 8;
  constexpr From kBeyond = From(Limits::max() / 2 + 1) * 2;
  if (value != value) return kWide ? To(u64{1} << (kBits<To> - 1)) : To{0};
  if (value <= From(Limits::min())) return Limits::min();
  if (value >= kBeyond) return Limits::max();
  return static_cast<To>(value);
}

inline f32 of_f16(u16 bits) { return static_cast<f32>(as<_Float16>(bits)); }
inline f32 of_bf16(u16 bits) { return as<f32>(u32{bits} << 16); }

/// To the nearest, ties to even.
template <class T>
u16 to_f16(T value) {
  return value == value ? as<u16>(static_cast<_Float16>(value)) : u16{0x7fff};
}
inline u16 to_bf16(f32 value) {
  const u32 bits = as<u32>(value);
  return value == value ? u16((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : u16{0x7fff};
}
/// Towards zero.
inline u16 cut_f16(f32 value) {
  const u16 nearest = to_f16(value);
  return std::fabs(of_f16(nearest)) > std::fabs(value) ? nearest - 1 : nearest;
}
inline u16 cut_bf16(f32 value) { return as<u32>(value) >> 16; }
inline u32 pack(u16 high, u16 low) { return u32{high} << 16 | low; }

}  // namespace emulator
