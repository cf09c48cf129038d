// Type, Shape, Range and View: the meaning of memory. All counts except View::bytes() are in
// elements, never in bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "src/base/error.h"

namespace lockstep {

/// The upper half of an IEEE float: 8 bits of exponent, 7 of mantissa. Arithmetic uses float.
struct Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  constexpr Bfloat16(float value) {  // NOLINT: implicit on purpose, like the built-in conversions
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!std::is_constant_evaluated()) {  // one instruction
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
      return;
    }
#endif
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = word + 0x7fff + ((word >> 16) & 1);
    const std::uint32_t quiet = word | 0x400000;
    bits = static_cast<std::uint16_t>((value == value ? rounded : quiet) >> 16);
  }
  constexpr operator float() const {  // NOLINT
    return std::bit_cast<float>(std::uint32_t{bits} << 16);
  }
};
static_assert(sizeof(Bfloat16) == 2);

/// An IEEE half: 5 bits of exponent, 10 of mantissa. The largest value is 65504, the smallest above
/// 0 is 2^-24. Messages and files have this type; nothing computes in it.
struct Half {
  std::uint16_t bits = 0;

  Half() = default;
  /// Rounds to nearest, ties to even; 65520 and above become Inf, and NaN stays NaN.
  constexpr Half(float value) {  // NOLINT: implicit on purpose, as above
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = word >> 16 & 0x8000, size = word & 0x7fffffff;
    // The last bit of 0.5 is 2^-24. So the sum rounds a smaller value as subnormal halves round.
    const std::uint32_t tiny =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000;
    const std::uint32_t normal = (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13;
    const std::uint32_t huge = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    bits = static_cast<std::uint16_t>(sign | (size < 0x38800000   ? tiny
                                              : size < 0x47800000 ? normal
                                                                  : huge));
  }
  constexpr operator float() const {  // NOLINT
    const std::uint32_t sign = std::uint32_t{bits} << 16 & 0x80000000,
                        size = std::uint32_t{bits} << 13 & 0x0fffe000;
    const std::uint32_t normal = size + 0x38000000, huge = size + 0x70000000;
    const std::uint32_t tiny =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size + 0x38800000) - 0x1p-14f);
    return std::bit_cast<float>(sign | (size < 0x00800000   ? tiny
                                        : size < 0x0f800000 ? normal
                                                            : huge));
  }
};
static_assert(sizeof(Half) == 2);

enum class Type : std::uint8_t { f32, bf16, f16, i32 };

constexpr std::size_t size_of(Type type) { return type == Type::bf16 || type == Type::f16 ? 2 : 4; }
constexpr const char* name_of(Type type) {
  constexpr const char* kNames[] = {"fp32", "bf16", "fp16", "int32"};
  return kNames[static_cast<int>(type)];
}
/// The type of numbers with this name. Throws Error if there is none.
inline Type type_called(std::string_view name) {
  for (const Type type : {Type::f32, Type::bf16, Type::f16}) {
    if (name == name_of(type)) return type;
  }
  throw Error("unknown type \"" + std::string(name) + "\"; choose fp32, bf16 or fp16");
}

template <class T>
inline constexpr Type type_of = [] {
  static_assert(std::is_same_v<T, float>, "no view has numbers of this type");
  return Type::f32;
}();
template <>
inline constexpr Type type_of<Bfloat16> = Type::bf16;
template <>
inline constexpr Type type_of<std::int32_t> = Type::i32;

/// Calls f with a null T* of the element type of `type`, so that one template serves the types of
/// activations, fp32 and bf16. Throws Error for another type.
template <class F>
decltype(auto) dispatch(Type type, F&& f) {
  if (type == Type::bf16) return f(static_cast<Bfloat16*>(nullptr));
  expect(type == Type::f32, "activations are fp32 or bf16");
  return f(static_cast<float*>(nullptr));
}

/// Up to four extents, outermost first. Images are N, H, W, C.
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) {
    expect(extents.size() <= kMaxRank, "a shape has at most 4 extents");
    for (const std::int64_t extent : extents) extents_[rank_++] = extent;
  }

  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[axis]; }
  /// The innermost extent.
  std::int64_t back() const {
    expect(rank_ > 0, "a shape without extents");
    return extents_[rank_ - 1];
  }
  std::int64_t count() const {
    std::int64_t product = 1;
    for (int axis = 0; axis < rank_; ++axis) product *= extents_[axis];
    return product;
  }
  /// Elements of one sample: all extents except the first.
  std::int64_t row() const { return rank_ == 0 || extents_[0] == 0 ? 0 : count() / extents_[0]; }
  /// The same with another number of samples.
  Shape with_batch(std::int64_t batch) const {
    Shape result = *this;
    result.extents_[0] = batch;
    return result;
  }
  bool operator==(const Shape&) const = default;

  /// "64x24x24x3"
  std::string text() const {
    std::string result;
    for (int axis = 0; axis < rank_; ++axis) {
      if (axis > 0) result += 'x';
      result += std::to_string(extents_[axis]);
    }
    return result;
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

/// Elements [begin, begin + count) of an arena.
struct Range {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return begin + count; }
  bool contains(Range other) const { return begin <= other.begin && other.end() <= end(); }
  bool operator==(const Range&) const = default;
};

/// A typed, shaped window on memory that it does not own and that outlives it. Dense, row-major.
struct View {
  void* data = nullptr;
  Shape shape;
  Type type = Type::f32;

  std::int64_t count() const { return shape.count(); }
  std::size_t bytes() const { return count() * size_of(type); }
  explicit operator bool() const { return data != nullptr; }

  /// The elements as T, which must match `type`.
  template <class T>
  T* as() const {
    expect(type == type_of<T>, "a view was read as a type that it does not contain");
    return static_cast<T*>(data);
  }
};

}  // namespace lockstep
