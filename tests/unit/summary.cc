// The start-up summary.
#include "apps/tell/summary.h"

#include <gtest/gtest.h>

#include "tests/support/error_of.h"

namespace lockstep {
namespace {

TEST(Order, NamesTheNumbersOfRanksThatGiveTheSameBits) {
  const auto text = [](int shards, int ranks, bool of_micro_batches = false) {
    RunPlan plan;
    plan.shards = shards;
    plan.shares = choose_shares(shards, ranks);
    plan.sums_micro_batches = of_micro_batches;
    return order_text(plan);
  };
  EXPECT_TRUE(
      mentions(text(12, 5), {"canonical", "--shards 12", "any number of ranks from 1 to 12"}));
  EXPECT_TRUE(mentions(text(1, 1), {"weights on 1 rank, of 1 thread"}));
  EXPECT_TRUE(mentions(text(4, 2, /*of_micro_batches=*/true), {"weights on 2 ranks"}));
}

}  // namespace
}  // namespace lockstep
