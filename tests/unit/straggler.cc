#include "apps/step/straggler.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::optional<Straggler> of(std::vector<double> seconds, double of_all) {
  return find_straggler(seconds, of_all);
}

TEST(Straggler, IsTheRankThatHardlyWaits) {
  const auto late = of({3.0, 2.5, 0.25, 2.75}, 10);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->rank, 2);
  EXPECT_DOUBLE_EQ(late->seconds, 2.25) << "then rank 1 would be the last";
  EXPECT_EQ(of({0, 2}, 10)->rank, 0);
}

TEST(Straggler, NeedsAClearDistanceFromEachOtherRank) {
  EXPECT_FALSE(of({1.0, 0.5, 0.75}, 10)) << "half a second in ten";
  EXPECT_FALSE(of({4, 0, 0, 4}, 10)) << "two are late alike";
  EXPECT_FALSE(of({0}, 10));
  EXPECT_FALSE(of({}, 10));
}

TEST(StragglerLines, NameARankOnceAMinuteIfItCosts) {
  StragglerLines lines;
  const auto late = [](int rank, double seconds) { return Straggler{rank, "host", 10, seconds}; };
  EXPECT_FALSE(lines.shows(late(1, 0.4), 10)) << "4 % of ten seconds";
  EXPECT_TRUE(lines.shows(late(1, 0.6), 12));
  int shown = 0;
  for (int second = 13; second < 133; ++second) shown += lines.shows(late(1, 0.5), second);
  EXPECT_EQ(shown, 2) << "in two minutes";
  EXPECT_TRUE(lines.shows(late(2, 20), 133)) << "another rank has a minute of its own";
  EXPECT_FALSE(lines.shows(late(3, 6), 134)) << "less than a twentieth since the start";
}

}  // namespace
}  // namespace lockstep
