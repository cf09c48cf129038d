// Ranks with any shares: the canonical reducers give the bits of the canonical order over shards.
#include <gtest/gtest.h>

#include <string>

#include "collectives/shard_sum.h"
#include "src/base/random.h"
#include "tests/mpi/reductions.h"
#include "tests/support/async_device.h"

namespace lockstep {
namespace {

constexpr std::int64_t kCount = 1600;
const std::vector<Range> kBuckets{{0, 1000}, {1008, 7}, {1040, 560}};

struct Way {
  std::string reducer;
  bool staged = false;
};

class AnyShares : public testing::TestWithParam<Way> {
 protected:
  std::unique_ptr<Reducer> make(const Shares& shares, bool change = false) {
    ReducerSpec spec{comm_, *device_, kCount, kBuckets};
    spec.roots = Roots::of(shares);
    spec.shares_change = change;
    const std::string& name = GetParam().reducer;
    if (name != "on_pairs" && name != "on_odd_and_even") return make_reducer(name, spec);
    auto reducer = make_on_groups(spec, name == "on_pairs" ? comm_.rank() / 2 : comm_.rank() % 2);
    return GetParam().staged ? make_staged_reducer(spec, std::move(reducer)) : std::move(reducer);
  }

  /// A step of each rank's shards and of the reducer. Returns the sum.
  Floats sum(Reducer& reducer, const Shares& shares, int step) {
    const Range own = shares.of(comm_.rank());
    ShardSum shard_sum(*device_, reducer.traits().rows, kCount, own, shares.shards());
    const auto stream = device_->stream();
    const Memory host = device_->allocate(kCount * sizeof(float), Place::host);
    auto* values = reinterpret_cast<float*>(host.get());
    for (int shard = 0; shard < own.count; ++shard) {
      for (std::int64_t i = 0; i < kCount; ++i)
        values[i] = random_value(static_cast<int>(own.begin) + shard, step, i);
      device_->copy(*stream, reducer.gradients(), values, kCount * sizeof(float));
      for (const Range range : {Range{0, 1000}, Range{1000, 600}})
        shard + 1 < own.count ? shard_sum.add(shard, range, *stream)
                              : shard_sum.finish(range, *stream);
      stream->synchronize();
    }
    for (const int bucket : {0, 1, 2}) reducer.written(bucket, *stream);
    for (const int bucket : {0, 1, 2}) reducer.start(bucket);
    for (const int bucket : {2, 0, 1}) reducer.finish(bucket);
    device_->copy(reducer.stream(), values, reducer.gradients(), kCount * sizeof(float));
    reducer.stream().synchronize();
    return {values, values + kCount};
  }

  void expect_canonical(const Floats& all, const Shares& shares, int step) {
    std::int64_t wrong = 0;
    for (const Range bucket : kBuckets) {
      for (std::int64_t i = bucket.begin; i < bucket.end(); ++i) {
        Floats parts;
        for (int shard = 0; shard < shares.shards(); ++shard)
          parts.push_back(random_value(shard, step, i));
        wrong += all[static_cast<std::size_t>(i)] != canonical_sum(parts);
      }
    }
    EXPECT_EQ(wrong, 0) << "shares " << shares.text() << ", step " << step;
  }

  Comm comm_ = world().comm().duplicate();
  std::unique_ptr<Device> device_ = GetParam().staged ? make_async_device() : make_cpu_device(1);
};

TEST_P(AnyShares, GiveTheSumOfTheCanonicalOrder) {
  Random random(5, Purpose::generate, 0, 0);  // the same on all ranks
  const auto ranks = static_cast<std::uint32_t>(comm_.size());
  for (const int shards : {5, 12, 24}) {
    for (int trial = 0; trial < 2; ++trial) {
      std::vector<int> counts(ranks, 1);
      for (int i = comm_.size(); i < shards; ++i) ++counts[random.below(ranks)];
      const Shares shares = trial == 0 ? choose_shares(shards, comm_.size()) : Shares(counts);
      const auto reducer = make(shares);
      ASSERT_TRUE(reducer->traits().canonical) << shares.text();
      for (const int step : {0, 1}) expect_canonical(sum(*reducer, shares, step), shares, step);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Canonical, AnyShares,
    testing::Values(Way{"auto"}, Way{"shared"}, Way{"direct"}, Way{"hierarchical"}, Way{"on_pairs"},
                    Way{"on_odd_and_even"}, Way{"direct", true}, Way{"on_pairs", true}),
    [](const auto& info) { return info.param.reducer + (info.param.staged ? "_staged" : ""); });

TEST_P(AnyShares, MayChangeBetweenSteps) {
  if (GetParam().staged) GTEST_SKIP() << "skipped: shares change in memory of the host only";
  constexpr int kShards = 12;
  const int ranks = comm_.size();
  const Shares even = choose_shares(kShards, ranks);
  std::vector<int> counts(ranks, 1);
  counts.back() = kShards - ranks + 1;
  const auto reducer = make(even, /*change=*/true);
  const float* const gradients = reducer->gradients();
  int step = 0;
  for (const Shares& shares : {even, Shares(counts), even, choose_shares(kShards + 1, ranks)}) {
    reducer->share(Roots::of(shares));
    EXPECT_EQ(reducer->gradients(), gradients);
    ++step;
    expect_canonical(sum(*reducer, shares, step), shares, step);
  }
}

TEST(OtherReducers, DoNotPromiseTheOrderOfUnevenShares) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) return;
  const auto device = make_cpu_device(1);
  std::vector<int> counts(comm.size(), 1);
  counts[1] = 2;  // of two subtrees
  ReducerSpec spec{comm, *device, 16, {{0, 16}}};
  spec.roots = Roots::of(Shares(counts));
  for (const char* name : {"tree", "mpi", "ring"}) {
    const auto reducer = make_reducer(name, spec);
    EXPECT_FALSE(reducer->traits().canonical) << name;
    EXPECT_EQ(reducer->traits().rows.size(), 1u) << name;
  }
}

}  // namespace
}  // namespace lockstep
