// Shapes, ranges, views, the arena, and the rounding of bf16 and fp16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "src/base/random.h"
#include "src/base/view.h"
#include "src/device/arena.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

TEST(Shape, CountsElementsRowsAndText) {
  const Shape images{64, 24, 24, 3};
  EXPECT_EQ(images.rank(), 4);
  EXPECT_EQ(images.count(), 64 * 24 * 24 * 3);
  EXPECT_EQ(images.row(), 24 * 24 * 3);
  EXPECT_EQ(images.with_batch(2), (Shape{2, 24, 24, 3}));
  EXPECT_EQ(images.text(), "64x24x24x3");
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_EQ(Shape{}.count(), 1);  // a single number
  EXPECT_EQ((Shape{0, 5}).count(), 0);
  EXPECT_EQ((Shape{0, 5}).row(), 0);
  expect_error({"4"}, [] { Shape{1, 2, 3, 4, 5}; });
}

TEST(Range, ContainsRangesWithin) {
  const Range range{10, 5};
  EXPECT_EQ(range.end(), 15);
  EXPECT_TRUE(range.contains({10, 5}));
  EXPECT_TRUE(range.contains({12, 0}));
  EXPECT_FALSE(range.contains({9, 2}));
  EXPECT_FALSE(range.contains({14, 2}));
}

TEST(View, CanBeReadOnlyAsItsOwnType) {
  std::vector<float> values(6);
  const View view{values.data(), {2, 3}, Type::f32};
  EXPECT_EQ(view.as<float>(), values.data());
  EXPECT_EQ(view.bytes(), 24u);
  EXPECT_EQ((View{values.data(), {2, 3}, Type::bf16}).bytes(), 12u);
  expect_error({"type"}, [&] { view.as<Bfloat16>(); });
  expect_error({"type"}, [&] { view.as<std::int32_t>(); });
  EXPECT_FALSE(View{});
  EXPECT_TRUE(view);
}

TEST(View, DispatchTakesOnlyFloatingPointTypes) {
  const auto size = [](auto* tag) { return sizeof *tag; };
  EXPECT_EQ(dispatch(Type::f32, size), 4u);
  EXPECT_EQ(dispatch(Type::bf16, size), 2u);
  for (const Type type : {Type::f16, Type::i32})
    expect_error({"fp32", "bf16"}, [&] { dispatch(type, size); });
}

TEST(Arena, PlacesAreAlignedDisjointAndWithin) {
  const auto device = make_cpu_device(1);
  Arena arena;
  const std::vector<std::size_t> sizes{1, 64, 0, 65, 4096, 3, 1000};
  std::vector<std::size_t> places;
  for (const std::size_t size : sizes) places.push_back(arena.reserve(size));
  arena.allocate(*device);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.at(places[i])) % Arena::kAlignment, 0u);
    std::memset(arena.at(places[i]), static_cast<int>(i + 1), sizes[i]);
  }
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_LE(places[i] + sizes[i], arena.bytes());
    const auto* bytes = static_cast<const unsigned char*>(arena.at(places[i]));
    for (std::size_t b = 0; b < sizes[i]; ++b) ASSERT_EQ(bytes[b], i + 1) << "place " << i;
  }
}

TEST(Device, MemoryIsZeroedAndPageAligned) {
  const auto device = make_cpu_device(1);
  for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{3} << 20}) {
    const Memory memory = device->allocate(size, Place::device);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 4096, 0u);
    for (std::size_t i = 0; i < size; ++i) ASSERT_EQ(memory[i], std::byte{0});
  }
}

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Bfloat16, EveryValueSurvivesConversionToFloat) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = float_of(bits << 16);
    const Bfloat16 back = value;
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back))) << bits;
    } else {
      ASSERT_EQ(back.bits, bits);
    }
  }
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
  // The middle between two neighbours, and one unit of the float to each side of it.
  for (const std::uint32_t bits :
       {0x0000u, 0x0001u, 0x007eu, 0x007fu, 0x0080u, 0x3f80u, 0x3f81u, 0x4049u, 0x7f7eu}) {
    for (const std::uint32_t sign : {0u, 0x8000u}) {
      const std::uint32_t low = bits | sign, even = low % 2 == 0 ? low : low + 1;
      EXPECT_EQ(Bfloat16(float_of((low << 16) + 0x7fff)).bits, low);
      EXPECT_EQ(Bfloat16(float_of((low << 16) + 0x8000)).bits, even);
      EXPECT_EQ(Bfloat16(float_of((low << 16) + 0x8001)).bits, low + 1);
    }
  }
  Random random(5, Purpose::generate, 0, 0);
  for (int i = 0; i < 100000; ++i) {
    const float value = float_of(random.next());
    if (!std::isfinite(value)) continue;
    const Bfloat16 rounded = value;
    const double error = std::abs(static_cast<double>(static_cast<float>(rounded)) - value);
    if (std::isinf(static_cast<float>(rounded))) continue;
    for (const std::uint32_t neighbour : {rounded.bits - 1u, rounded.bits + 1u}) {
      const double other = float_of((neighbour & 0xffff) << 16);
      if (std::isfinite(other)) {
        ASSERT_LE(error, std::abs(other - value));
      }
    }
  }
}

TEST(Bfloat16, KeepsSignedZerosInfinitiesAndNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Bfloat16(0.0f).bits, 0x0000);
  EXPECT_EQ(Bfloat16(-0.0f).bits, 0x8000);
  EXPECT_EQ(Bfloat16(infinity).bits, 0x7f80);
  EXPECT_EQ(Bfloat16(-infinity).bits, 0xff80);
  EXPECT_EQ(Bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds up, past the last
  EXPECT_EQ(Bfloat16(float_of(0x7f7f7fff)).bits, 0x7f7f);               // just below that middle
  EXPECT_EQ(Bfloat16(std::numeric_limits<float>::denorm_min()).bits, 0x0000);
  EXPECT_EQ(Bfloat16(float_of(0x0000c000)).bits, 0x0001);
  // NaNs whose set bits are all cut off, or that a carry would turn into zero.
  for (const std::uint32_t nan :
       {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu, 0x7fc00000u}) {
    const Bfloat16 value = float_of(nan);
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << nan;
    EXPECT_EQ(value.bits >> 15, nan >> 31) << std::hex << nan;
  }
}

/// The value of the bits of a positive half by the standard.
double half_of(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10);
  const double mantissa = bits & 0x3ff;
  return exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
}
float float_of_half(std::uint32_t bits) {
  Half half;
  half.bits = static_cast<std::uint16_t>(bits);
  return half;
}

TEST(Half, EveryValueFollowsTheStandardAndSurvivesConversion) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    ASSERT_EQ(float_of_half(bits), half_of(bits)) << bits;
    ASSERT_EQ(float_of_half(bits | 0x8000), -half_of(bits)) << bits;
    ASSERT_EQ(Half(float_of_half(bits)).bits, bits);
    ASSERT_EQ(Half(float_of_half(bits | 0x8000)).bits, bits | 0x8000);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(float_of_half(0x7c00), infinity);
  EXPECT_EQ(float_of_half(0xfc00), -infinity);
  for (std::uint32_t bits = 0x7c01; bits < 0x8000; ++bits) {
    ASSERT_TRUE(std::isnan(float_of_half(bits))) << bits;
    ASSERT_TRUE(std::isnan(float_of_half(bits | 0x8000))) << bits;
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t low = 0; low < 0x7bff; ++low) {
    const auto middle = static_cast<float>((half_of(low) + half_of(low + 1)) / 2);
    ASSERT_EQ(Half(std::nextafter(middle, 0.0f)).bits, low);
    ASSERT_EQ(Half(middle).bits, low % 2 == 0 ? low : low + 1);
    ASSERT_EQ(Half(std::nextafter(middle, 1e9f)).bits, low + 1);
    ASSERT_EQ(Half(-middle).bits, (low % 2 == 0 ? low : low + 1) | 0x8000);
  }
}

TEST(Half, KeepsSignedZerosInfinitiesAndNan) {
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
  EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(Half(65519.996f).bits, 0x7bff);
  for (const float value : {65520.0f, 65536.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(Half(value).bits, 0x7c00) << value;
    EXPECT_EQ(Half(-value).bits, 0xfc00) << value;
  }
  for (const std::uint32_t nan : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu}) {
    const Half value = float_of(nan);
    EXPECT_TRUE(std::isnan(static_cast<float>(value))) << std::hex << nan;
    EXPECT_EQ(value.bits >> 15, nan >> 31) << std::hex << nan;
  }
}

}  // namespace
}  // namespace lockstep
