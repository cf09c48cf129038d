#include "collectives/watch/host_watch.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(HostUse, AddsTheRanksOfAHost) {
  const std::vector<RankUse> before{
      {0, 5, 100, 7, 50, 60}, {0, 1, 0, 7, 0, 0}, {2, 0, 0, 7, 900, 0}};
  const std::vector<RankUse> now{{0, 2'000'000'005, 3'000'000'100, 30, 250, 61},
                                 {0, 1'000'000'001, 500'000'000, 12, 999, 999},
                                 {2, 4'000'000'000, 4'000'000'000, 5, 100, 40}};
  const std::vector<HostUse> hosts = host_use(before, now);
  ASSERT_EQ(hosts.size(), 2);
  EXPECT_DOUBLE_EQ(hosts[0].cores, 1.5 + 0.5) << "each rank by its own time";
  EXPECT_DOUBLE_EQ(hosts[0].bytes, 42);
  EXPECT_DOUBLE_EQ(hosts[0].received, 100) << "once for a host";
  EXPECT_DOUBLE_EQ(hosts[0].sent, 0.5);
  EXPECT_DOUBLE_EQ(hosts[1].cores, 1);
  EXPECT_DOUBLE_EQ(hosts[1].received, 0) << "the counter has begun anew";
  EXPECT_DOUBLE_EQ(hosts[1].sent, 10);
}

}  // namespace
}  // namespace lockstep
