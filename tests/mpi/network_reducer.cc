// Sums between hosts: messages of any length, the measured link, and the reducer that auto selects.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/reducers/reducers.h"
#include "collectives/schedule_run.h"
#include "tests/mpi/reductions.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

TEST(Exchange, ChunksOfAnyLengthGiveTheSameSum) {
  const Comm comm = world().comm().duplicate();
  const auto device = make_cpu_device(1);
  constexpr std::int64_t kCount = 101;
  const int size = comm.size(), sum = size * (size + 1) / 2;
  for (const std::size_t piece : {std::size_t{4}, std::size_t{12}, 2 * kCount * sizeof(float)}) {
    Floats kept(kCount);
    Exchanges exchanges;
    for (const AlgorithmEntry& entry : algorithms()) {
      exchanges.push_back(std::make_unique<ScheduleRun>(
          comm, entry.algorithm(comm.rank(), size, kCount), piece, /*tag=*/0));
    }
    for (const Type wire : {Type::f32, Type::bf16}) {
      const ReducerSpec spec{.comm = comm,
                             .device = *device,
                             .count = kCount,
                             .buckets = {{0, kCount}},
                             .wire = wire,
                             .exact = 5};
      exchanges.push_back(std::move(
          make_direct_all_reduces(spec, comm, Roots::one_each(size), kept.data(), piece).front()));
    }
    for (const auto& exchange : exchanges) {
      Floats bucket(kCount, static_cast<float>(comm.rank() + 1));
      exchange->start(bucket.data());
      while (exchange->advance(/*wait=*/true)) continue;
      EXPECT_EQ(bucket, Floats(kCount, static_cast<float>(sum))) << piece;
    }
  }
}

TEST(MeasuredLink, IsPlausibleAndTheSameOnAllRanks) {
  const Comm comm = world().comm().duplicate();
  for (const int ranks_of_a_host : {1, 2}) {
    const Link link = measure_link(comm, group_of(comm, comm.rank() / ranks_of_a_host));
    if (comm.size() <= ranks_of_a_host) {
      EXPECT_EQ(link.latency, Link().latency) << "there is one host";
      EXPECT_EQ(link.bandwidth, Link().bandwidth);
      continue;
    }
    for (const double number : {link.latency, link.bandwidth, link.add_rate}) {
      const auto bits = std::bit_cast<std::int64_t>(number);
      EXPECT_EQ(comm.min(bits), comm.max(bits));
    }
    EXPECT_GT(link.latency, 1e-8);
    EXPECT_LT(link.latency, 10);
    EXPECT_GT(link.bandwidth, 1e4);
    EXPECT_LT(link.bandwidth, 1e12);
    EXPECT_GT(link.add_rate, 1e6);
  }
}

/// With a clock that advances by 1, 2, 3, 4, 5, 1, .. us per look.
TEST(MeasuredLink, IsTheBestOfItsRoundsAndCountsAsWaiting) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) return;
  const auto waits = [] { return world().flight_recorder().mine().read().waiting; };
  std::int64_t looks = 0, us = 0;
  const Link link = measure_link(comm, group_of(comm, comm.rank()), 20, [&] {
    EXPECT_TRUE(waits()) << "for the watchdog";
    us += 1 + looks++ % 5;
    return static_cast<double>(us) * 1e-6;
  });
  EXPECT_FALSE(waits());
  EXPECT_EQ(looks, comm.rank() == 0 ? 2 * 20 + 2 * 3 : 0);
  EXPECT_NEAR(link.latency, 0.5e-6, 1e-12);
  EXPECT_NEAR(link.bandwidth, (1 << 20) / 0.5e-6, 1e6);
}

TEST(MakeReducer, BetweenHostsAutoMeasuresAndPrintsTheResult) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) return;
  const auto device = make_cpu_device(1);
  const auto made = [&](int ranks_of_a_host, std::vector<Range> buckets) {
    return make_network_reducer({comm, *device, 5000, std::move(buckets), ""},
                                group_of(comm, comm.rank() / ranks_of_a_host));
  };
  const auto apart = made(1, {{0, 1000}, {1000, 4000}});
  const std::string& text = apart->traits().description;
  EXPECT_TRUE(mentions(text, {"GB/s"}));
  EXPECT_TRUE(mentions(text, {" ms ", "2 buckets", "0.0191 MiB"}));
  EXPECT_TRUE(apart->traits().canonical);
  std::fill_n(apart->gradients(), 5000, static_cast<float>(comm.rank() + 1));
  const auto stream = device->stream();
  for (const int bucket : {0, 1}) {
    apart->written(bucket, *stream);
    apart->start(bucket);
    apart->finish(bucket);
  }
  const int sum = comm.size() * (comm.size() + 1) / 2;
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(apart->gradients()[i], static_cast<float>(sum)) << i;

  const auto paired = made(2, {{0, 5000}});
  const ReducerTraits& pairs = paired->traits();
  EXPECT_EQ(pairs.name, "hierarchical") << "on uneven hosts too";
  EXPECT_TRUE(pairs.canonical);
  EXPECT_NE(made(1, {}), nullptr) << "without buckets";
}

}  // namespace
}  // namespace lockstep
