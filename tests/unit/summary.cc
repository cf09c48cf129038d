// The start-up summary: on the numbers of ranks that it names, the sum of all shards is bitwise
// identical.
#include "apps/tell/summary.h"

#include <gtest/gtest.h>

#include <numeric>

#include "collectives/sum.h"
#include "src/base/random.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

/// The sum of one element over `shards` on so many ranks, each of which sums its own first.
float sum_on(int ranks, std::vector<float> shards) {
  const std::size_t own = shards.size() / static_cast<std::size_t>(ranks);
  const auto sum_of = [](std::vector<float> values) {
    std::vector<float*> parts;
    for (float& value : values) parts.push_back(&value);
    sum_canonically(parts, 1);
    return values.front();
  };
  std::vector<float> of_ranks;
  for (auto begin = shards.begin(); begin != shards.end(); begin += static_cast<int>(own)) {
    of_ranks.push_back(sum_of({begin, begin + static_cast<int>(own)}));
  }
  return sum_of(of_ranks);
}

TEST(Order, NamesTheNumbersOfRanksThatGiveTheSameBits) {
  EXPECT_EQ(ranks_of_same_bits(1), std::vector<int>{1});
  EXPECT_EQ(ranks_of_same_bits(8), (std::vector<int>{1, 2, 4, 8}));
  EXPECT_EQ(ranks_of_same_bits(12), (std::vector<int>{1, 3, 6, 12}));
  EXPECT_EQ(ranks_of_same_bits(9), (std::vector<int>{1, 9}));
  EXPECT_EQ(ranks_of_same_bits(2147483647), (std::vector<int>{1, 2147483647}));
  Random random(1, Purpose::generate, 0, 0);
  for (int shards = 1; shards <= 24; ++shards) {
    std::vector<int> same(shards);
    std::iota(same.begin(), same.end(), 1);
    std::erase_if(same, [&](int ranks) { return shards % ranks != 0; });
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<float> values;
      for (int i = 0; i < shards; ++i) values.push_back(random.normal());
      std::erase_if(same, [&](int ranks) { return sum_on(ranks, values) != sum_on(1, values); });
    }
    EXPECT_EQ(ranks_of_same_bits(shards), same) << shards;
  }
}

TEST(Order, NamesTheNumbersOfRanksInTheSummary) {
  const auto text = [](int shards, int own, bool of_accumulated = false) {
    RunPlan plan;
    plan.shards = shards;
    plan.own_shards = own;
    return order_text(plan, of_accumulated);
  };
  EXPECT_TRUE(mentions(text(4, 2), {"canonical", "--shards 4", "1, 2, 4 ranks"}));
  EXPECT_TRUE(mentions(text(6, 3), {"2 ranks with 3 shards", "1, 3, 6 ranks", "not on these"}));
  EXPECT_TRUE(mentions(text(6, 6), {"canonical", "1, 3, 6 ranks"}));
  EXPECT_TRUE(mentions(text(4, 2, /*of_accumulated=*/true), {" on 2 ranks"}));
}

}  // namespace
}  // namespace lockstep
