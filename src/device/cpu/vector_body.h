// A register of floats with loads and stores. Part of src/device/cpu/kernels_body.h.

namespace lockstep::KERNELS {

inline constexpr int kLanes = KERNEL_LANES;
inline constexpr bool kBf16Products = KERNEL_BF16_PRODUCTS;
inline constexpr int kRegisters = kLanes == 16 ? 32 : 16;
/// Sums of products stay in 14 x 2 of 32 registers, or 6 x 2 of 16; the others contain the factors.
inline constexpr int kRows = kRegisters == 32 ? 14 : 6;

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

/// dispatch() for the types with load() and store(): f32 and bf16.
template <class F>
decltype(auto) dispatch_vectors(Type type, F&& f) {
  if (type == Type::bf16) return f(static_cast<Bfloat16*>(nullptr));
  expect(type == Type::f32, "the type must be fp32 or bf16");
  return f(static_cast<float*>(nullptr));
}

}  // namespace lockstep::KERNELS
