// ShardSum adds the shards of one rank in the canonical order of collectives/schedule.h, for every
// number of shards.
#include "collectives/shard_sum.h"

#include <gtest/gtest.h>

#include "tests/support/canonical_sum.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

constexpr std::int64_t kCount = 37;

std::vector<std::vector<float>> draw_shards(int shards) {
  Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(shards));
  return draw_parts(shards, kCount, random);
}

/// One step of a rank, range by range, as layers become ready.
void run_step(ShardSum& sum, std::vector<float>& gradients,
              const std::vector<std::vector<float>>& all) {
  HostStream stream;
  for (std::size_t shard = 0; shard < all.size(); ++shard) {
    gradients = all[shard];
    for (const Range range : {Range{0, 1}, Range{1, 20}, Range{21, 16}}) {
      if (shard + 1 < all.size())
        sum.add(static_cast<int>(shard), range, stream);
      else
        sum.finish(range, stream);
    }
  }
}

class ShardSums : public testing::TestWithParam<int> {};

TEST_P(ShardSums, AreInTheCanonicalOrder) {
  const int shards = GetParam();
  std::vector<float> gradients(kCount);
  const auto device = make_cpu_device(1);
  float* const root = gradients.data();
  ShardSum sum(*device, {&root, 1}, kCount, {0, shards}, shards);
  const float* where = gradients.data();
  for (int step = 0; step < 2; ++step) {  // a step leaves nothing for the next
    auto all = draw_shards(shards);
    for (float& value : all.front()) value += static_cast<float>(step);
    run_step(sum, gradients, all);
    EXPECT_EQ(gradients.data(), where);
    EXPECT_EQ(gradients, canonical_sum(all)) << "step " << step;
  }
}

TEST(ShardSum, TheOrderMattersForTheseNumbers) {
  const auto all = draw_shards(9);
  std::vector<float> in_turn(kCount);
  for (const auto& shard : all) {
    for (std::size_t i = 0; i < kCount; ++i) in_turn[i] += shard[i];
  }
  EXPECT_NE(in_turn, canonical_sum(all));
}

TEST(ShardSum, RefusesZeroShardsAndNegativeElements) {
  const auto device = make_cpu_device(1);
  std::vector<float> gradients(kCount);
  const auto line = [&](std::int64_t count, int shards) {
    float* const root = gradients.data();
    return error_of([&] { ShardSum(*device, {&root, 1}, count, {0, shards}, shards); });
  };
  EXPECT_TRUE(mentions(line(kCount, 0), {"at least one shard"}));
  EXPECT_TRUE(mentions(line(-1, 2), {"at least one shard"}));
}

INSTANTIATE_TEST_SUITE_P(Upto9, ShardSums, testing::Range(1, 10));

}  // namespace
}  // namespace lockstep
