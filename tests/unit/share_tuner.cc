// --shares auto: when the shares change, and to what.
#include "apps/step/share_tuner.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(BetterShares, GiveSlowRanksFewer) {
  const Shares even = choose_shares(12, 2);
  const std::vector<double> seconds{0.02, 0.01};
  const auto better = better_shares(even, seconds, 1000, 0.05);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->counts(), (std::vector<int>{4, 8}));
  EXPECT_DOUBLE_EQ(slowest(even, seconds), 0.12);
  EXPECT_DOUBLE_EQ(slowest(*better, seconds), 0.08);
}

TEST(BetterShares, StayIfTheGainDoesNotPay) {
  const Shares even = choose_shares(12, 2);
  const std::vector<double> alike{0.0101, 0.01}, unlike{0.02, 0.01};
  EXPECT_FALSE(better_shares(even, alike, 1000, 0)) << "noise";
  EXPECT_FALSE(better_shares(even, unlike, 1000, 100 * 0.041)) << "the change costs more";
  EXPECT_TRUE(better_shares(even, unlike, 1000, 100 * 0.039));
  EXPECT_FALSE(better_shares(even, unlike, 1, 0.05)) << "the run ends before";
  EXPECT_FALSE(better_shares(Shares({4, 8}), unlike, 1000, 0)) << "it is the best";
}

TEST(BetterShares, LeaveEachRankOne) {
  const auto better = better_shares(choose_shares(8, 2), std::vector<double>{1.0, 1e-12}, 1000, 0);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->counts(), (std::vector<int>{1, 7}));
}

}  // namespace
}  // namespace lockstep
