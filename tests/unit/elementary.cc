// Elementary functions of double numbers: special values, errors against long double, and the
// recorded bits of a million results.
#include "src/base/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "src/base/crc32c.h"
#include "src/base/random.h"

namespace lockstep {
namespace {

constexpr int kCount = 200'000;  // arguments of each function
constexpr double kInfinity = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN(), kLeast = 0x1p-1074;

/// The largest error of some results, and the bits of all.
struct Outcome {
  double error = 0;  ///< units in the last place, or as add() is told
  std::uint32_t crc = 0;

  void add(double value, long double right, double unit) {
    error = std::max(error, std::abs(static_cast<double>((value - right) / unit)));
    crc = crc32c({reinterpret_cast<const char*>(&value), sizeof value}, crc);
  }
};

/// A unit in the last place of a number that is not denormal.
double unit_of(long double value) { return std::ldexp(1.0, std::ilogb(value) - 52); }

/// Uniform in [low, high), with 53 random bits.
double uniform(Random& random, double low, double high) {
  const double high_part = random.next() * 0x1p-32, low_part = (random.next() >> 11) * 0x1p-53;
  return std::fma(high - low, high_part + low_part, low);
}

/// A positive number between 2^-least and 2^most.
double of_any_size(Random& random, int least, int most) {
  const auto exponent = static_cast<int>(random.below(static_cast<std::uint32_t>(most - least)));
  return std::ldexp(uniform(random, 1, 2), least + exponent);
}

Random draws(std::uint32_t key) { return {9, Purpose::generate, 0, key}; }

TEST(Elementary, Exponential) {
  EXPECT_EQ(exponential(0), 1);
  EXPECT_EQ(exponential(-0.0), 1);
  EXPECT_EQ(exponential(1), std::numbers::e);
  EXPECT_EQ(exponential(-kInfinity), 0);
  EXPECT_EQ(exponential(-746), 0);
  EXPECT_EQ(exponential(-1e300), 0);
  EXPECT_EQ(exponential(-745.1), kLeast);
  EXPECT_NEAR(exponential(-740) / std::exp(-740.0), 1, 0.01);
  EXPECT_LT(exponential(709.78), kInfinity);
  EXPECT_EQ(exponential(709.79), kInfinity);
  EXPECT_EQ(exponential(710), kInfinity);
  EXPECT_EQ(exponential(1e300), kInfinity);
  EXPECT_EQ(exponential(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exponential(kNan)));
  Outcome outcome;
  Random random = draws(1);
  for (int i = 0; i < kCount; ++i) {
    const double range = i % 2 == 0 ? 1 : 708, x = uniform(random, -range, range);
    const long double right = std::exp(static_cast<long double>(x));
    outcome.add(exponential(x), right, unit_of(right));
  }
  EXPECT_LT(outcome.error, 0.85);
  EXPECT_EQ(outcome.crc, 2463954583u);
}

TEST(Elementary, NaturalLogarithm) {
  EXPECT_EQ(natural_log(1), 0);
  EXPECT_EQ(natural_log(2), std::numbers::ln2);
  EXPECT_EQ(natural_log(0), -kInfinity);
  EXPECT_EQ(natural_log(-0.0), -kInfinity);
  EXPECT_EQ(natural_log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(natural_log(-1)));
  EXPECT_TRUE(std::isnan(natural_log(-kInfinity)));
  EXPECT_TRUE(std::isnan(natural_log(kNan)));
  EXPECT_EQ(natural_log(kLeast), -0x1.74385446d71c3p+9);  // -1074 log 2
  EXPECT_EQ(natural_log(std::numeric_limits<double>::max()), 0x1.62e42fefa39efp+9);
  Outcome outcome;
  Random random = draws(2);
  for (int i = 0; i < kCount; ++i) {
    const double x = i % 2 == 0 ? uniform(random, 0.5, 2) : of_any_size(random, -1074, 1023);
    const long double right = std::log(static_cast<long double>(x));
    outcome.add(natural_log(x), right, unit_of(right));
  }
  EXPECT_LT(outcome.error, 0.55);
  EXPECT_EQ(outcome.crc, 355310410u);
}

TEST(Elementary, Power) {
  EXPECT_EQ(power(0.5, 3), 0.125);
  EXPECT_EQ(power(10, 2), 100);
  EXPECT_EQ(power(0.1, 1), 0.1);
  EXPECT_EQ(power(4, -0.5), 0.5);
  EXPECT_EQ(power(2, -1074), kLeast);
  EXPECT_EQ(power(2, 1024), kInfinity);
  EXPECT_EQ(power(kLeast, 0.5), 0x1p-537);
  for (const double base : {0.0, 0.3, 1.0, kInfinity, kNan}) EXPECT_EQ(power(base, 0), 1);
  for (const double exponent : {-kInfinity, -3.0, 2.5, kInfinity}) {
    EXPECT_EQ(power(1, exponent), 1);
    EXPECT_EQ(power(0, exponent), exponent > 0 ? 0 : kInfinity);
    EXPECT_EQ(power(kInfinity, exponent), exponent > 0 ? kInfinity : 0);
  }
  EXPECT_EQ(power(0.9, kInfinity), 0);
  EXPECT_EQ(power(1.1, kInfinity), kInfinity);
  EXPECT_EQ(power(0.9, -kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(power(-1, 2)));
  EXPECT_TRUE(std::isnan(power(kNan, 2)));
  EXPECT_TRUE(std::isnan(power(2, kNan)));
  Outcome near, far;
  Random random = draws(3);
  for (int i = 0; i < kCount; ++i) {
    const double base = i % 2 == 0 ? uniform(random, 0, 1) : of_any_size(random, -1000, 1000);
    const double log = uniform(random, -1, 1) * (i % 4 < 2 ? 20 : 700),
                 exponent = log / natural_log(base);
    const long double right = std::pow(static_cast<long double>(base), exponent);
    (i % 4 < 2 ? near : far).add(power(base, exponent), right, unit_of(right));
  }
  EXPECT_LT(near.error, 1.5);
  EXPECT_LT(far.error, 36);
  EXPECT_EQ(near.crc, 1636161184u);
  EXPECT_EQ(far.crc, 2391145109u);
}

TEST(Elementary, CosinesAndSinesOfTurns) {
  for (const double whole : {0.0, 3.0, -5.0, 0x1p49}) {
    const double cosines[] = {1, 0, -1, 0}, sines[] = {0, 1, 0, -1};
    for (int quarter = 0; quarter < 4; ++quarter) {
      EXPECT_EQ(cosine_of_turns(whole + quarter / 4.0), cosines[quarter]) << whole << quarter;
      EXPECT_EQ(sine_of_turns(whole + quarter / 4.0), sines[quarter]) << whole << quarter;
    }
  }
  EXPECT_DOUBLE_EQ(sine_of_turns(1 / 12.0), 0.5);
  EXPECT_DOUBLE_EQ(cosine_of_turns(1 / 6.0), 0.5);
  EXPECT_DOUBLE_EQ(sine_of_turns(1e-300), 2 * std::numbers::pi * 1e-300);
  for (const double odd : {kInfinity, kNan}) {
    EXPECT_TRUE(std::isnan(cosine_of_turns(odd)));
    EXPECT_TRUE(std::isnan(sine_of_turns(odd)));
  }
  Outcome cosines, sines, small;
  Random random = draws(4);
  for (int i = 0; i < kCount; ++i) {
    const double turns = uniform(random, -1, 1) * (i % 2 == 0 ? 1 : 1000);
    const long double angle =
        2 * std::numbers::pi_v<long double> * (static_cast<long double>(turns) - std::round(turns));
    cosines.add(cosine_of_turns(turns), std::cos(angle), 0x1p-53);
    sines.add(sine_of_turns(turns), std::sin(angle), 0x1p-53);
    const double little = of_any_size(random, -900, -3);
    const long double right = std::sin(2 * std::numbers::pi_v<long double> * little);
    small.add(sine_of_turns(little), right, unit_of(right));
  }
  EXPECT_LT(cosines.error, 2.1);
  EXPECT_LT(sines.error, 2.1);
  EXPECT_LT(small.error, 0.6);
  EXPECT_EQ(cosines.crc, 3852453758u);
  EXPECT_EQ(sines.crc, 1535376743u);
  EXPECT_EQ(small.crc, 1299067097u);
}

TEST(Elementary, NormalNumbersAreRecorded) {
  std::uint32_t crc = 0;
  Random random = draws(5);
  for (int i = 0; i < kCount; ++i) {
    const float value = random.normal();
    crc = crc32c({reinterpret_cast<const char*>(&value), sizeof value}, crc);
  }
  EXPECT_EQ(crc, 2771605274u);
}

}  // namespace
}  // namespace lockstep
