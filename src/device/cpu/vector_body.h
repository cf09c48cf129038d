// A register of floats with loads and stores. Part of src/device/cpu/kernels_body.h.

namespace lockstep::KERNELS {

inline constexpr int kLanes = KERNEL_LANES;
inline constexpr bool kBf16Products = KERNEL_BF16_PRODUCTS;
inline constexpr int kRegisters = kLanes == 8 ? 16 : 32;
/// Sums of products stay in 14 x 2 of 32 registers, or 6 x 2 of 16; the others contain the factors.
inline constexpr int kRows = kRegisters == 32 ? 14 : 6;
/// Decides which layers a kernel serves, in every instruction set, because the choice decides bits.
inline constexpr int kServedLanes = 16;

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
  return __builtin_bit_cast(Vector, __builtin_convertvector(bits, Words) << 16);
}
inline void store(float* to, Vector value) { std::memcpy(to, &value, sizeof value); }
/// Rounded as Bfloat16(float) rounds.
inline void store(Bfloat16* to, Vector value) {
  const Words word = __builtin_bit_cast(Words, value);
  const Words rounded = word + 0x7fff + ((word >> 16) & 1), quiet = word | 0x400000;
  const Halves bits = __builtin_convertvector((value == value ? rounded : quiet) >> 16, Halves);
  std::memcpy(static_cast<void*>(to), &bits, sizeof bits);
}

/// `value` in each lane. A sum with a register of zeros would cost an addition.
[[gnu::always_inline]] inline Vector broadcast(float value) {
#if KERNEL_LANES == 16
  return _mm512_set1_ps(value);
#elif KERNEL_LANES == 8 && defined(__AVX__)
  return _mm256_set1_ps(value);
#elif KERNEL_LANES == 4 && defined(__ARM_NEON)
  return vdupq_n_f32(value);
#else
  Vector all;
  for (int lane = 0; lane < kLanes; ++lane) all[lane] = value;
  return all;
#endif
}

/// a * b + c, rounded once, on every processor. The compiler must never decide whether a product
/// and a sum are fused, because that decides the last bit.
[[gnu::always_inline]] inline Vector fma(Vector a, Vector b, Vector c) {
#if KERNEL_LANES == 16
  return _mm512_fmadd_ps(a, b, c);
#elif KERNEL_LANES == 8 && defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif KERNEL_LANES == 4 && defined(__ARM_NEON)
  return vfmaq_f32(c, a, b);
#else
  for (int lane = 0; lane < kLanes; ++lane) c[lane] = std::fma(a[lane], b[lane], c[lane]);
  return c;
#endif
}
[[gnu::always_inline]] inline Vector fma(float a, Vector b, Vector c) {
  return fma(broadcast(a), b, c);
}

template <class T>
[[gnu::always_inline]] inline T word_at(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// dispatch() for the types with load() and store(): f32 and bf16.
template <class F>
decltype(auto) dispatch_vectors(Type type, F&& f) {
  if (type == Type::bf16) return f(static_cast<Bfloat16*>(nullptr));
  expect(type == Type::f32, "the type must be fp32 or bf16");
  return f(static_cast<float*>(nullptr));
}

}  // namespace lockstep::KERNELS
