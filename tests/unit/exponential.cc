// e^x and the logarithm of every kind of float, against the C library in double.
#include "net/exponential.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/base/crc32c.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Calls f for a float in 997 of all kinds.
template <class F>
void for_floats(F f) {
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 997)
    f(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
}

/// The distance of `value` from the finite number `right`, in units of right's last place as float.
double units(float value, double right) {
  const auto size = std::abs(static_cast<float>(right));
  const double unit = std::nextafter(size, kInfinity) - size;
  return std::abs(value - right) / unit;
}

TEST(Exponential, IsWithinOneUnitInTheLastPlace) {
  double worst = 0;
  for_floats([&](float x) {
    const float value = exponential(x);
    const double right = std::exp(static_cast<double>(x));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(value));
    } else if (right > std::numeric_limits<float>::max()) {
      EXPECT_EQ(value, static_cast<float>(right)) << x;
    } else {
      worst = std::max(worst, units(value, right));
    }
  });
  EXPECT_LT(worst, 1);
  EXPECT_GT(worst, 0.5) << "nothing was compared";
}

TEST(Exponential, OfNegativeNumbersIsWithinOneUnitInTheLastPlace) {
  double worst = 0;
  for_floats([&](float x) {
    if (!(x >= 0)) return;
    const float value = exp_of_negative(x);
    worst = std::max(worst, units(value, std::exp(-std::min(static_cast<double>(x), 87.0))));
  });
  EXPECT_LT(worst, 1);
  EXPECT_TRUE(std::isnan(exp_of_negative(std::nanf(""))));
}

TEST(Exponential, HasTheLimitsOfTheCLibrary) {
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-0.0f), 1);
  EXPECT_EQ(exponential(kInfinity), kInfinity);
  EXPECT_EQ(exponential(88.72284f), kInfinity);
  EXPECT_LT(exponential(88.72283f), kInfinity);
  EXPECT_EQ(exponential(-kInfinity), 0);
  EXPECT_EQ(exponential(-103.9f), std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(exponential(-104), 0);
}

TEST(Logarithm, IsTheNearestFloatOfNearlyAllNumbers) {
  double worst = 0;
  for_floats([&](float x) {
    if (!(x > 0) || x == kInfinity) return;
    const double right = std::log(static_cast<double>(x));
    // Near a power of 2 the last place below it has half the unit.
    worst = std::max(worst, std::min(units(natural_log(x), right),
                                     std::abs(natural_log(x) - right) / std::abs(right) * 0x1p24));
  });
  EXPECT_LT(worst, 0.51);
}

TEST(Logarithm, HasTheLimitsOfTheCLibrary) {
  EXPECT_EQ(natural_log(1), 0);
  EXPECT_EQ(natural_log(0), -kInfinity);
  EXPECT_EQ(natural_log(-0.0f), -kInfinity);
  EXPECT_EQ(natural_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(natural_log(-1)));
  EXPECT_TRUE(std::isnan(natural_log(-kInfinity)));
  EXPECT_TRUE(std::isnan(natural_log(std::nanf(""))));
}

TEST(Exponential, HasTheRecordedBits) {
  std::vector<float> values;
  for_floats([&](float x) {
    if (std::isnan(x)) return;  // the bits of NaN differ
    values.push_back(exponential(x));
    if (x >= 0) values.push_back(exp_of_negative(x));
    if (x > 0) values.push_back(natural_log(x));
  });
  const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                               values.size() * sizeof(float));
  EXPECT_EQ(crc32c(bytes), 0x333ce622u);
}

}  // namespace
}  // namespace lockstep
