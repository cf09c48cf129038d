// Histograms: exact counts, every value within the edges of its bucket, eight buckets to the
// octave.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "src/base/random.h"
#include "src/report/report.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// All that holds for every histogram.
void check(const std::vector<float>& values) {
  const Histogram h = histogram(values);
  std::vector<float> finite;
  std::copy_if(values.begin(), values.end(), std::back_inserter(finite),
               [](float v) { return std::isfinite(v); });
  std::sort(finite.begin(), finite.end());
  ASSERT_EQ(h.limits.size(), h.counts.size());
  EXPECT_EQ(h.count, static_cast<double>(finite.size()));
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), 0.0), h.count);
  if (finite.empty()) {
    EXPECT_TRUE(h.limits.empty());
    EXPECT_EQ(h.sum, 0);
    EXPECT_EQ(h.min, 0);
    EXPECT_EQ(h.max, 0);
    return;
  }
  EXPECT_EQ(h.min, finite.front());
  EXPECT_EQ(h.max, finite.back());
  EXPECT_GT(h.counts.front(), 0);
  EXPECT_GT(h.counts.back(), 0);
  for (std::size_t i = 1; i < h.limits.size(); ++i) {
    ASSERT_LT(h.limits[i - 1], h.limits[i]);
    EXPECT_TRUE(h.counts[i - 1] > 0 || h.counts[i] > 0) << "two empty buckets in a row";
  }
  std::size_t place = 0;  // in order of size, the values fill the buckets one after the other
  for (std::size_t i = 0; i < h.limits.size(); ++i) {
    for (double k = 0; k < h.counts[i]; ++k, ++place) {
      ASSERT_LE(finite[place], h.limits[i]);
      ASSERT_GE(finite[place], i > 0 ? h.limits[i - 1] : h.min);
    }
  }
}

std::vector<float> normal(std::size_t count) {
  Random random(5, Purpose::generate, 0, 0);
  std::vector<float> values(count);
  for (float& value : values) value = 0.05f * random.normal();
  return values;
}

TEST(Histogram, CountsAnyValues) {
  for (const std::size_t count : {0, 1, 2, 15, 16, 17, 31, 2047, 2048, 2049, 4096, 100000})
    check(normal(count));
  Random random(6, Purpose::generate, 0, 0);
  std::vector<float> bits(50000);  // every sign and exponent, infinities and NaNs
  for (float& value : bits) value = std::bit_cast<float>(random.next());
  check(bits);
  check({0.0f, -0.0f});
  check({std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()});
  check(
      {std::numeric_limits<float>::denorm_min(), -std::numeric_limits<float>::denorm_min(), 0.0f});
  check({kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()});
  check({kInfinity, 1.0f, std::numeric_limits<float>::quiet_NaN(), -2.0f});
}

TEST(Histogram, SumsAreExactIfPossible) {
  std::vector<float> values(10007);
  std::iota(values.begin(), values.end(), -5000.0f);  // -5000 .. 5006: all sums are whole numbers
  double sum = 0, sum_squares = 0;
  for (const double value : values) sum += value, sum_squares += value * value;
  const Histogram h = histogram(values);
  EXPECT_EQ(h.sum, sum);
  EXPECT_EQ(h.sum_squares, sum_squares);
  EXPECT_EQ(h.min, -5000);
  EXPECT_EQ(h.max, 5006);
}

TEST(Histogram, EightBucketsToTheOctave) {
  std::vector<float> octave;
  for (int i = 0; i < 64; ++i) octave.push_back(1.0f + static_cast<float>(i) / 64);
  const Histogram h = histogram(octave);
  EXPECT_EQ(h.counts, std::vector<double>(8, 8));
  EXPECT_EQ(h.limits, (std::vector<double>{1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875, 2}));
  for (float& value : octave) value = -value;
  EXPECT_EQ(histogram(octave).limits,
            (std::vector<double>{-1.875, -1.75, -1.625, -1.5, -1.375, -1.25, -1.125, -1}));
}

TEST(Histogram, AnEmptyRunIsOneBucket) {
  const Histogram h = histogram(std::vector<float>{-1.0f, 1.0f, 1.0f, 64.0f});
  EXPECT_EQ(h.counts, (std::vector<double>{1, 0, 2, 0, 1}));
  EXPECT_EQ(h.limits, (std::vector<double>{-1, 1, 1.125, 64, 72}));
}

}  // namespace
}  // namespace lockstep
