// The learning-rate range test on losses of known shape.
#include "apps/run/find_lr.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

/// Runs the whole test with the loss `of` each rate.
RangeTest tested(const std::function<double(double rate)>& of, std::int64_t steps = 200) {
  RangeTest test(steps);
  for (std::int64_t step = 0; test.add(of(test.rate(step)));) ++step;
  return test;
}

TEST(FindLr, RisesExponentially) {
  const RangeTest test(8);
  EXPECT_DOUBLE_EQ(test.rate(0), 1e-6);
  EXPECT_DOUBLE_EQ(test.rate(7), 10);
  EXPECT_NEAR(test.rate(4) / test.rate(3), 10, 1e-9);
}

TEST(FindLr, SuggestsATenthOfTheRateWithTheLowestLoss) {
  // 2 for small rates, 1 at 0.1, then a steep rise.
  const RangeTest test = tested([](double rate) {
    const double decades = std::log10(rate / 0.1);
    return decades < 0 ? 2 - std::exp2(decades) : 1 + 20 * decades;
  });
  EXPECT_TRUE(test.diverged());
  EXPECT_LT(test.points().size(), 200u);
  EXPECT_NEAR(test.suggestion().value(), 0.01, 0.002) << "the average is late";
}

TEST(FindLr, EndsWithoutASuggestionIfTheLossNeverFalls) {
  EXPECT_FALSE(tested([](double rate) { return 1 + rate; }).suggestion());
  const RangeTest test = tested(
      [](double rate) { return rate < 1e-5 ? 1 : std::numeric_limits<double>::quiet_NaN(); });
  EXPECT_TRUE(test.diverged());
  EXPECT_EQ(test.points().size(), 30u) << "200 steps cover 7 decades: one of them has 29";
}

TEST(FindLr, ALossThatFallsToTheEndDoesNotDiverge) {
  const RangeTest test = tested([](double rate) { return 1 / (1 + rate); }, 20);
  EXPECT_FALSE(test.diverged());
  EXPECT_EQ(test.points().size(), 20u);
  EXPECT_DOUBLE_EQ(test.suggestion().value(), 1);
}

}  // namespace
}  // namespace lockstep
