// --shares auto: all ranks agree on shares that suit their speeds, and these do not oscillate.
#include "apps/step/share_tuner.h"

#include <gtest/gtest.h>

#include "tests/mpi/world.h"

namespace lockstep {
namespace {

constexpr int kShards = 24, kSteps = 2000;

/// The steps after which the shares change. `seconds`: of this rank per shard at a step.
std::vector<std::int64_t> changes(const std::function<double(std::int64_t)>& seconds,
                                  Shares& shares) {
  const Comm comm = world().comm().duplicate();
  ShareTuner tuner(comm, shares);
  std::vector<std::int64_t> steps;
  double computing = 0;
  for (std::int64_t done = 1; done <= kSteps; ++done) {
    computing += seconds(done) * static_cast<double>(shares.of(comm.rank()).count);
    const auto change = tuner.after_step(done, kSteps, computing);
    if (!change) continue;
    shares = change->shares;
    std::int64_t hash = 0;
    for (const int count : shares.counts()) hash = 31 * hash + count;
    EXPECT_EQ(comm.min(hash), comm.max(hash));
    steps.push_back(done);
    tuner.changed(0.01);
  }
  return steps;
}

TEST(ShareTuner, FollowsTheSpeedOfARankWithin20Steps) {
  const int rank = world().comm().rank(), ranks = world().comm().size();
  if (ranks == 1) return;
  Shares shares = choose_shares(kShards, ranks);
  const auto steps =
      changes([&](std::int64_t step) { return rank == 0 && step <= 1000 ? 0.03 : 0.01; }, shares);
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_LE(steps[0], 20);
  EXPECT_GT(steps[1], 1000);
  EXPECT_LE(steps[1], 1020);
  EXPECT_EQ(shares.largest(), choose_shares(kShards, ranks).largest());
}

TEST(ShareTuner, IgnoresNoiseAndSingleSlowSteps) {
  const int rank = world().comm().rank();
  Shares shares = choose_shares(kShards, world().comm().size());
  EXPECT_TRUE(changes(
                  [&](std::int64_t step) {
                    return step % 5 == rank ? 0.05 : 0.01 + 0.0001 * static_cast<double>(step % 3);
                  },
                  shares)
                  .empty());
}

TEST(ShareTuner, ChangesLessAndLessOftenIfSpeedsKeepChanging) {
  const int rank = world().comm().rank(), ranks = world().comm().size();
  if (ranks == 1) return;
  Shares shares = choose_shares(kShards, ranks);
  const auto steps =
      changes([&](std::int64_t step) { return step / 16 % 2 == rank % 2 ? 0.03 : 0.01; }, shares);
  EXPECT_GE(steps.size(), 1u);
  EXPECT_LE(steps.size(), 40u);
}

TEST(ShareTuner, TakesTheLargestCostOfAllRanks) {
  const Comm comm = world().comm().duplicate();
  const Shares shares = choose_shares(kShards, comm.size());
  ShareTuner tuner(comm, shares);
  tuner.changed(comm.rank() == 0 ? 1e9 : 0);
  const double seconds = comm.rank() == 0 ? 0.03 : 0.01;
  // Only one comparison, because ranks that disagree would wait for each other at the next.
  for (std::int64_t done = 1; done <= 10; ++done) {
    const double computing = seconds * static_cast<double>(done * shares.of(comm.rank()).count);
    EXPECT_FALSE(tuner.after_step(done, kSteps, computing)) << "rank " << comm.rank();
  }
}

}  // namespace
}  // namespace lockstep
