// AllGather by itself, and as a bucket among others under every progress policy.
#include "collectives/all_gather.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "collectives/buckets.h"
#include "collectives/exchange.h"
#include "collectives/reducer.h"
#include "tests/mpi/world.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

std::byte value(int step, int rank, std::size_t place) {
  return static_cast<std::byte>(step * 7 + rank * 31 + place % 251);
}

/// Whether all ranks' bytes are here.
bool holds(AllGather& gather, int step, int rank, std::size_t bytes) {
  const std::span<const std::byte> message = gather.of(rank);
  if (message.size() != bytes) return false;
  for (std::size_t i = 0; i < bytes; ++i)
    if (message[i] != value(step, rank, i)) return false;
  return true;
}

void write(AllGather& gather, int step, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) gather.own()[i] = value(step, world().comm().rank(), i);
}

TEST(AllGather, EachRankGetsWhatTheOthersHave) {
  const Comm comm = world().comm();
  constexpr std::size_t kMost = 2 * kChunkWithinHost + 1;
  AllGather gather(comm.duplicate(), kMost);
  constexpr std::array<std::size_t, 7> kSizes = {
      kMost, 0, 1, kChunkWithinHost, kChunkWithinHost + 1, kChunkWithinHost - 1, kMost - 1};
  const auto size_of = [&](int step, int rank) { return kSizes[(step + 2 * rank) % 7]; };
  for (int step = 0; step < 14; ++step) {
    const std::size_t own = size_of(step, comm.rank());
    write(gather, step, own);
    gather.start(own);
    while (!gather.advance()) continue;
    EXPECT_TRUE(gather.done());
    EXPECT_TRUE(gather.advance()) << "and stays so";
    for (int rank = 0; rank < comm.size(); ++rank)
      EXPECT_TRUE(holds(gather, step, rank, size_of(step, rank))) << step << " of " << rank;
  }
  EXPECT_GE(gather.bytes(), comm.size() * kMost);
  for (int rank = 0; rank < comm.size(); ++rank)
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(gather.of(rank).data()) % 4096, 0u);
  EXPECT_THROW(gather.start(kMost + 1), Error);
}

TEST(AllGather, OfNothingIsDone) {
  const Comm comm = world().comm();
  AllGather gather(comm.duplicate(), 0);
  gather.start();
  while (!gather.advance()) continue;
  for (int rank = 0; rank < comm.size(); ++rank) EXPECT_TRUE(gather.of(rank).empty());
}

TEST(AllGather, RefusesRanksThatDisagreeAndMoreThanItHasRoomFor) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() > 1) {
    const std::size_t most = comm.rank() == 1 ? 100 : 200;
    const std::string line = error_of([&] { AllGather(comm, most); });
    EXPECT_NE(line.find("\"most = 100\" here, \"most = 200\" on rank 0"), std::string::npos)
        << line;
  }
  AllGather gather(comm, 100);
  const std::string line = error_of([&] { gather.start(101); });
  EXPECT_NE(line.find("room for 100 bytes"), std::string::npos) << line;
  EXPECT_EQ(line.find("internal error"), std::string::npos) << line;
}

TEST(AllGather, IsNotDoneBeforeTheOthersSend) {
  const Comm comm = world().comm();
  if (comm.size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  AllGather gather(comm.duplicate(), 100);
  write(gather, 0, 100);
  if (comm.rank() == 0) {
    gather.start();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(gather.advance());
    EXPECT_FALSE(gather.done());
  }
  comm.barrier();
  if (comm.rank() != 0) gather.start();
  while (!gather.advance()) continue;
  EXPECT_TRUE(holds(gather, 0, 0, 100));
}

class GatheredBuckets : public testing::TestWithParam<Policy> {
 protected:
  void SetUp() override {
    if (GetParam() == Policy::thread && !world().threads_allowed())
      GTEST_SKIP() << "skipped: this MPI grants no threads";
  }
  std::unique_ptr<Reducer> make_tree(const std::vector<Range>& summed) {
    return make_reducer("tree", {.comm = comm.duplicate(),
                                 .device = *device,
                                 .count = summed.back().end(),
                                 .buckets = summed});
  }

  const Comm comm = world().comm();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->stream();
};

TEST_P(GatheredBuckets, TakeTurnsWithThoseThatAreSummed) {
  const std::vector<Range> buckets = {{0, 16}, {16, 3000}, {3024, 100}, {3136, 5}, {3152, 64}};
  // The second and the fourth are gathered.
  const std::vector<Range> summed = {buckets[0], buckets[2], buckets[4]};
  const auto reducer = make_tree(summed);
  AllGather long_one(comm.duplicate(), kChunkWithinHost + 77), short_one(comm.duplicate(), 20);
  std::array<std::atomic<int>, 5> called{};  // by bucket, also on the other thread
  GradientBuckets all(*reducer, buckets, GetParam(),
                      [&](int bucket, Range range) {
                        EXPECT_EQ(range, buckets[bucket]);
                        ++called[bucket];
                      },
                      nullptr, nullptr, {nullptr, &long_one, nullptr, &short_one, nullptr});
  for (int step = 0; step < 30; ++step) {
    for (const Range& range : summed) {
      for (std::int64_t i = range.begin; i < range.end(); ++i)
        reducer->gradients()[i] = static_cast<float>(step + i * (comm.rank() + 1));
    }
    write(long_one, step, kChunkWithinHost + 77);
    write(short_one, step + 1, 20);
    for (const Range& bucket : buckets) {
      all.ready(bucket, *stream);
      all.advance();
    }
    all.finish_first(2);
    EXPECT_EQ(called[0], step + 1);
    EXPECT_EQ(called[1], step + 1);
    for (int rank = 0; rank < comm.size(); ++rank)
      EXPECT_TRUE(holds(long_one, step, rank, kChunkWithinHost + 77)) << rank;
    all.finish();
    for (const std::atomic<int>& times : called) EXPECT_EQ(times, step + 1);
    for (int rank = 0; rank < comm.size(); ++rank)
      EXPECT_TRUE(holds(short_one, step + 1, rank, 20)) << rank;
    const int ranks = comm.size();
    for (const Range& range : summed) {
      for (std::int64_t i = range.begin; i < range.end(); ++i) {
        const auto sum = static_cast<float>(ranks * step + i * (ranks * (ranks + 1) / 2));
        ASSERT_EQ(reducer->gradients()[i], sum) << i;
      }
    }
  }
}

TEST_P(GatheredBuckets, AreWaitedForByThemselves) {
  const auto reducer = make_tree({{32, 32}});
  AllGather gather(comm.duplicate(), 8);
  GradientBuckets all(*reducer, {{0, 32}, {32, 32}}, GetParam(), [](int, Range) {}, nullptr,
                      nullptr, {&gather, nullptr});
  all.ready({0, 32}, *stream);
  if (comm.rank() == 0) all.ready({32, 32}, *stream);
  all.finish_first(1);  // the other one is begun here, and not by the others
  EXPECT_TRUE(gather.done());
  comm.barrier();
  if (comm.rank() != 0) all.ready({32, 32}, *stream);
  all.finish();
}

TEST_P(GatheredBuckets, AreMovedOnMeanwhile) {
  if (GetParam() == Policy::wait) GTEST_SKIP() << "nobody moves anything on";
  const auto reducer = make_tree({{32, 32}});
  AllGather gather(comm.duplicate(), 4 * kChunkWithinHost);
  std::atomic<bool> there = false;
  GradientBuckets all(*reducer, {{0, 32}, {32, 32}}, GetParam(),
                      [&](int bucket, Range) { there = bucket == 0; }, nullptr, nullptr,
                      {&gather, nullptr});
  all.ready({0, 32}, *stream);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!there && std::chrono::steady_clock::now() < end) {
    if (GetParam() == Policy::poll) all.advance();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  EXPECT_TRUE(there);
  all.ready({32, 32}, *stream);
  all.finish();
}

TEST_P(GatheredBuckets, AreNotWaitedForBeforeTheyAreReady) {
  const auto reducer = make_tree({{32, 32}});
  AllGather gather(comm.duplicate(), 8);
  GradientBuckets all(*reducer, {{0, 32}, {32, 32}}, GetParam(), [](int, Range) {}, nullptr,
                      nullptr, {&gather, nullptr});
  EXPECT_THROW(all.finish_first(1), Error);
  all.ready({0, 32}, *stream);
  all.finish_first(1);
  EXPECT_TRUE(gather.done());
  all.ready({32, 32}, *stream);
  all.finish();
}

INSTANTIATE_TEST_SUITE_P(Policies, GatheredBuckets,
                         testing::Values(Policy::wait, Policy::poll, Policy::thread));

TEST(CostOfGather, IsWhatTheBusiestHostReceives) {
  const auto cost = [](std::vector<int> hosts) { return cost_of_gather(hosts, 1e6, {1e-3, 1e9}); };
  EXPECT_DOUBLE_EQ(cost({1, 1}), 1e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(cost({1, 1, 1, 1}), 1e-3 + 3e-3);
  EXPECT_DOUBLE_EQ(cost({2, 2}), 1e-3 + 4e-3) << "to each of two from two";
  EXPECT_DOUBLE_EQ(cost({3, 1}), 1e-3 + 3e-3);
  EXPECT_DOUBLE_EQ(cost({1, 3, 2}), 1e-3 + 9e-3) << "three ranks receive from three";
}

}  // namespace
}  // namespace lockstep
