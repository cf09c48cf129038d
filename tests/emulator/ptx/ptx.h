// The operations of PTX that C++ has no operator for, used by the kernels that ptx.py translates:
// integers, memory and shuffles here, floating point in ptx_float.h. Each function follows the PTX
// manual to the bit, because C++ leaves NaN, saturation and shifts beyond the width open.
//
// Three results differ from those of a GPU. An instruction with .approx is rounded correctly, or as
// libm does. A NaN in f32 gets the bits 0x7fffffff, as a GPU's arithmetic makes them, but only when
// its bits are read or stored; a copied NaN gets them too. The manual leaves division by 0 open:
// here the quotient is -1, and the remainder is the dividend.
//
// Compile translated files with -ffp-contract=off, because the translation already contains each
// fma. All functions are small, so that g++ -O1 inlines them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/emulator/emulator.h"
#include "tests/emulator/ptx/ptx_float.h"

namespace emulator {

// --- integers -----------------------------------------------------------------------------------

template <class To, class From>
To clamp(From value) {
  using Limits = std::numeric_limits<To>;
  return static_cast<To>(std::clamp<s128>(value, Limits::min(), Limits::max()));
}

template <class T>
T divide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(Unsigned<T>(0) - a);
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if (std::is_signed_v<T> && b == static_cast<T>(-1)) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T high_product(T a, T b) {
  return static_cast<T>((static_cast<u128>(a) * static_cast<u128>(b)) >> kBits<T>);
}

/// a + b + carry; `carry` becomes what is beyond the width.
template <class T>
T add_carry(T a, T b, bool& carry) {
  const u128 sum = u128{a} + b + carry;
  carry = (sum >> kBits<T>) != 0;
  return static_cast<T>(sum);
}
template <class T>
T subtract_carry(T a, T b, bool& carry) {
  const u128 difference = u128{a} - b - carry;
  carry = (difference >> kBits<T>) != 0;
  return static_cast<T>(difference);
}

template <class T>
T shift_left(T a, u32 count) {
  return count < kBits<T> ? static_cast<T>(u64{a} << count) : T{0};
}
template <class T>
T shift_right(T a, u32 count) {
  if (std::is_signed_v<T>) count = std::min(count, kBits<T> - 1);
  return count < kBits<T> ? static_cast<T>(a >> count) : T{0};
}
/// The upper word of high:low after a shift to the left; the lower one after one to the right.
inline u32 funnel_left(u32 low, u32 high, u32 count) {
  return static_cast<u32>(((u64{high} << 32 | low) << count) >> 32);
}
inline u32 funnel_right(u32 low, u32 high, u32 count) {
  return static_cast<u32>((u64{high} << 32 | low) >> count);
}

/// bfe: `length` bits from `position` on, with the sign of the highest of them.
template <class T>
T extract(T a, u32 position, u32 length) {
  length &= 255;
  if (length == 0) return 0;
  a = shift_right(a, position & 255);
  if (length >= kBits<T>) return a;
  const u32 beyond = kBits<T> - length;
  return static_cast<T>(static_cast<T>(Unsigned<T>(a) << beyond) >> beyond);
}
/// bfi: b, whose `length` bits from `position` on are those of a.
template <class T>
T insert(T a, T b, u32 position, u32 length) {
  const T ones = ~shift_left(static_cast<T>(~T{0}), length & 255);
  const T mask = shift_left(ones, position & 255);
  return (b & ~mask) | (shift_left(a, position & 255) & mask);
}

/// bfind: the highest bit that differs from the sign; none: all ones.
template <class T>
u32 find_bit(T a) {
  const auto bits = static_cast<Unsigned<T>>(std::is_signed_v<T> && a < 0 ? ~a : a);
  return kBits<T> - 1 - std::countl_zero(bits);
}
template <class T>
T reverse(T a) {
  T result = 0;
  for (u32 i = 0; i < kBits<T>; ++i) result |= (a >> i & 1) << (kBits<T> - 1 - i);
  return result;
}

/// prmt: four bytes of b:a, each chosen by four bits; the highest of them repeats its sign.
inline u32 permute(u32 a, u32 b, u32 choice) {
  const u64 bytes = u64{b} << 32 | a;
  u32 result = 0;
  for (u32 i = 0; i < 4; ++i) {
    const u32 chosen = choice >> 4 * i & 15;
    u32 byte = bytes >> 8 * (chosen & 7) & 255;
    if (chosen & 8) byte = byte & 128 ? 255 : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/// dp2a: two 16-bit numbers of a times two bytes of b, from bit `first` on.
template <class A, class B>
u32 dot2(u32 a, u32 b, u32 c, u32 first) {
  using A16 = std::conditional_t<std::is_signed_v<A>, s16, u16>;
  using B8 = std::conditional_t<std::is_signed_v<B>, s8, u8>;
  const u32 low = u32(A16(a)) * u32(B8(b >> first));
  const u32 high = u32(A16(a >> 16)) * u32(B8(b >> (first + 8)));
  return low + high + c;
}

// --- memory -------------------------------------------------------------------------------------

inline const void* pointer(u64 address) { return reinterpret_cast<const void*>(address); }

template <class T>
T read(u64 address) {
  T value;
  std::memcpy(&value, pointer(address), sizeof value);
  return value;
}
template <class T>
void write(u64 address, T value) {
  if constexpr (std::is_same_v<T, f32>) value = canonical(value);
  std::memcpy(const_cast<void*>(pointer(address)), &value, sizeof value);
}

/// Writes change(old) and returns old.
template <class T, class Change>
T atomic(u64 address, Change change) {
  check_access(pointer(address), sizeof(T), true, true);
  const T old = read<T>(address);
  write<T>(address, change(old));
  return old;
}

/// shfl.sync.bfly. `found`: the other lane is within the segment that `clamp` describes.
inline u32 shuffle(u32 word, u32 mask, u32 clamp, u32 members, bool& found) {
  const u32 lane = thread_idx.x % 32, segment = clamp >> 8 & 31;
  const u32 last = (lane & segment) | (clamp & 31 & ~segment);
  const u32 other = shuffle_xor(word, mask & 31, clamp, members);
  found = (lane ^ (mask & 31)) <= last;
  return found ? other : word;
}

}  // namespace emulator
