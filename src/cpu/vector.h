// A register of floats of the widest instruction set that this file is compiled for, and its ways
// from and to memory. Only src/cpu includes this.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "src/view.h"

namespace lockstep {

#ifdef __AVX512F__
inline constexpr int kLanes = 16;
inline constexpr int kRegisters = 32;
#else
inline constexpr int kLanes = 8;
inline constexpr int kRegisters = 16;
#endif

using Vector = float __attribute__((vector_size(kLanes * 4)));
using Words = std::uint32_t __attribute__((vector_size(kLanes * 4)));
using Halves = std::uint16_t __attribute__((vector_size(kLanes * 2)));

inline Vector load(const float* from) {
  Vector value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline Vector load(const Bfloat16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return std::bit_cast<Vector>(__builtin_convertvector(bits, Words) << 16);
}
inline void store(float* to, Vector value) { std::memcpy(to, &value, sizeof value); }
/// Rounded as Bfloat16(float) rounds.
inline void store(Bfloat16* to, Vector value) {
  const Words word = std::bit_cast<Words>(value);
  const Words rounded = word + 0x7fff + ((word >> 16) & 1), quiet = word | 0x400000;
  const Halves bits = __builtin_convertvector((value == value ? rounded : quiet) >> 16, Halves);
  std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
}

/// dispatch(), for the types above: f32 and bf16.
template <class F>
decltype(auto) dispatch_vectors(Type type, F&& f) {
  if (type == Type::bf16) return f(static_cast<Bfloat16*>(nullptr));
  expect(type == Type::f32, "this is for fp32 and bf16");
  return f(static_cast<float*>(nullptr));
}

}  // namespace lockstep
