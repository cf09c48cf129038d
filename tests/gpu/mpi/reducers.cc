// The reducers of GPUs on GPUs: exact sums, canonical bits, repeated as a graph. Ranks that share a
// GPU have no NCCL between them, and are summed through the host.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "collectives/reducer.h"
#include "collectives/sum.h"
#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "tests/mpi/world.h"
#include "tests/support/device_array.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

constexpr std::int64_t kCount = 300000;
const std::vector<Range> kBuckets{{16, 100}, {128, 4097}, {8192, 250001}};

/// Numbers so far apart that another order of adding gives other bits.
Floats noise(int rank, int step) {
  Random random(1, Purpose::generate, static_cast<std::uint32_t>(step),
                static_cast<std::uint32_t>(rank));
  Floats values(kCount);
  for (float& value : values)
    value =
        std::ldexp(static_cast<float>(random.below(1 << 20)), static_cast<int>(random.below(20)));
  return values;
}

Floats integers(int rank, int step) {
  Floats values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i)
    values[i] = static_cast<float>((rank + 1) * (i % 97 + 1) + step);
  return values;
}

/// The contents of each bucket after the sum over all ranks in canonical order.
Floats sum_of_all(Floats (*values)(int rank, int step), int step) {
  std::vector<Floats> parts;
  std::vector<float*> places;
  for (int rank = 0; rank < world().comm().size(); ++rank) parts.push_back(values(rank, step));
  for (Floats& part : parts) places.push_back(part.data());
  sum_canonically(places, kCount);
  return parts.front();
}

class Reducers : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      reducer_ = make_reducer(
          GetParam(),
          {.comm = comm_, .device = *device_, .count = kCount, .buckets = kBuckets, .why = {}});
    } catch (const AgreedError& error) {
      GTEST_SKIP() << "skipped: " << error.what();
    }
  }

  void write(const Floats& values) {
    write_array(*device_, *stream_, values, reducer_->gradients());
  }
  /// The sums of all buckets in turn, and the join that ends a step.
  void reduce() {
    for (int bucket = 0; bucket < static_cast<int>(kBuckets.size()); ++bucket) {
      reducer_->written(bucket, *stream_);
      reducer_->start(bucket);
    }
    for (int bucket = 0; bucket < static_cast<int>(kBuckets.size()); ++bucket)
      reducer_->finish(bucket);
    joined_->record(reducer_->stream());
    joined_->wait(*stream_);
  }
  Floats result() { return read_array<float>(*device_, *stream_, reducer_->gradients(), kCount); }
  static std::int64_t wrong(const Floats& is, const Floats& wanted) {
    std::int64_t count = 0;
    for (const Range& bucket : kBuckets) {
      for (std::int64_t i = bucket.begin; i < bucket.end(); ++i) count += is[i] != wanted[i];
    }
    return count;
  }

  Comm comm_ = world().comm().duplicate();
  std::unique_ptr<Device> device_ = make_cuda_device({1, world().comm().node().rank(), false});
  std::unique_ptr<Stream> stream_ = device_->stream();
  std::unique_ptr<Event> joined_ = device_->event();
  std::unique_ptr<Reducer> reducer_;
};

TEST_P(Reducers, SumExactly) {
  for (int step = 0; step < 5; ++step) {
    write(integers(comm_.rank(), step));
    reduce();
    EXPECT_EQ(wrong(result(), sum_of_all(integers, step)), 0) << "step " << step;
  }
}

TEST_P(Reducers, GiveTheCanonicalBitsWherePromised) {
  if (!reducer_->traits().canonical)
    GTEST_SKIP() << "skipped: " << GetParam() << " promises no order";
  for (int step = 0; step < 3; ++step) {
    write(noise(comm_.rank(), step));
    reduce();
    EXPECT_EQ(wrong(result(), sum_of_all(noise, step)), 0) << "step " << step;
  }
}

TEST_P(Reducers, AreRepeatedAsAGraphWhereTheyAreInTheStream) {
  if (!reducer_->traits().in_stream)
    GTEST_SKIP() << "skipped: the host is in the loop of " << GetParam();
  write(integers(comm_.rank(), 0));
  reduce();  // once as it is: connections are made with the first sum
  stream_->synchronize();
  const std::unique_ptr<Graph> graph = device_->capture(*stream_, [&] { reduce(); });
  ASSERT_NE(graph, nullptr);
  for (int step = 1; step < 5; ++step) {
    write(integers(comm_.rank(), step));
    graph->launch(*stream_);
    EXPECT_EQ(wrong(result(), sum_of_all(integers, step)), 0) << "step " << step;
    EXPECT_NO_THROW(reducer_->advance());
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, Reducers, testing::Values("auto", "nccl", "shared", "tree"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace lockstep
