// When factors are estimated to be faster than sums: arithmetic alone.
#include "apps/step/factor_sums.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr Link kGigabit{.latency = 50e-6, .bandwidth = 125e6, .add_rate = 10e9};

/// The tutorial's first dense layer, 2304 to 384, with 64 samples on each of `hosts` ranks.
FactorWork tutorial(int hosts) {
  return {.count = 2304 * 384 + 384,
          .bytes = 64 * (2304 + 384) * 4,
          .shards = hosts,
          .own_shards = 1,
          .ranks_on = std::vector<int>(hosts, 1),
          .product = 1e-3};
}

bool factors_win(const FactorWork& work, const Link& link) {
  const FactorCost cost = cost_of_factors(work, link);
  return cost.factors < cost.summed;
}

TEST(CostOfFactors, IsBytesAndProductsOfOthersAndSums) {
  const FactorCost cost = cost_of_factors(tutorial(2), kGigabit);
  EXPECT_NEAR(cost.factors, 50e-6 + 688128 / 125e6 + 1e-3 + 3 * 3540480 / 10e9, 1e-9);
  EXPECT_NEAR(cost.summed, 28.7e-3, 0.5e-3) << "3.5 MB each way";
  FactorWork two = tutorial(2);
  two.shards = 4;
  two.own_shards = 2;
  EXPECT_NEAR(cost_of_factors(two, kGigabit).factors,
              50e-6 + 2 * 688128 / 125e6 + 2e-3 + 9 * 3540480 / 10e9, 1e-9);
}

TEST(CostOfFactors, IsLessWhereLinksAreSlowAndRanksAndSamplesAreFew) {
  EXPECT_TRUE(factors_win(tutorial(2), kGigabit));
  EXPECT_TRUE(factors_win(tutorial(4), kGigabit));
  EXPECT_FALSE(factors_win(tutorial(16), kGigabit)) << "15 others' factors are more than two sums";
  EXPECT_FALSE(factors_win(tutorial(4), {.latency = 5e-6, .bandwidth = 12.5e9, .add_rate = 10e9}));
  FactorWork large = tutorial(2);
  large.bytes *= 16;
  EXPECT_FALSE(factors_win(large, kGigabit)) << "1024 samples on each";
  FactorWork slow = tutorial(2);
  slow.product = 30e-3;
  EXPECT_FALSE(factors_win(slow, kGigabit));
}

TEST(CostOfFactors, CountsTheRanksOfAHost) {
  FactorWork spread = tutorial(4), together = spread;
  together.ranks_on = {2, 2};
  const double four = cost_of_factors(spread, kGigabit).factors,
               two_by_two = cost_of_factors(together, kGigabit).factors;
  EXPECT_NEAR(two_by_two - four, 688128 / 125e6, 1e-9) << "four messages through a link, not three";
  together.ranks_on = {4};
  EXPECT_EQ(cost_of_factors(together, kGigabit).summed, 0) << "nothing crosses";
}

}  // namespace
}  // namespace lockstep
