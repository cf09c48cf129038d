// NCCL between ranks that share a GPU. NCCL refuses that, so each rank claims to be a host of its
// own (NCCL_HOSTID). The sums then go over the loopback network, and one GPU shows what else needs
// two: sums in a graph, two communicators, and an abort while a sum waits for a rank.
#include <gtest/gtest.h>

#include <cstdlib>

#include "collectives/reducers/nccl.h"
#include "src/base/clock.h"
#include "src/device/cuda/device.h"
#include "tests/mpi/world.h"
#include "tests/support/device_array.h"

namespace lockstep {
namespace {
constexpr std::int64_t kCount = 1 << 20;

class OneGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (comm_.size() == 1) GTEST_SKIP() << "skipped: a single rank adds nothing";
    setenv("NCCL_HOSTID", std::to_string(comm_.rank()).c_str(), 1);
    device_ = make_cuda_device({1, 0, false});
    stream_ = device_->stream();
    for (auto& reducer : reducers_) {
      ReducerSpec spec{comm_.duplicate(), *device_, kCount, {{0, 1000}, {1008, kCount - 1008}}};
      spec.beside_another = true;
      spec.timeout_seconds = 20;
      reducer = make_nccl_reducer(spec, nccl_library());
    }
  }

  void reduce() {
    for (const int bucket : {0, 1}) {
      for (const auto& reducer : reducers_) {
        reducer->written(bucket, *stream_);
        reducer->start(bucket);
      }
    }
    for (const auto& reducer : reducers_) {
      joined_.push_back(device_->event());
      joined_.back()->record(reducer->stream());
      joined_.back()->wait(*stream_);
    }
  }
  template <class Reduce>
  void expect_sums(float value, Reduce reduce) {
    const auto ranks = static_cast<float>(comm_.size()), own = static_cast<float>(comm_.rank());
    const std::vector<float> values(kCount, value + own);
    for (const auto& each : reducers_) write_array(*device_, *stream_, values, each->gradients());
    reduce();
    for (const auto& each : reducers_) {
      const auto is = read_array<float>(*device_, *stream_, each->gradients(), kCount);
      for (const std::int64_t place : {0L, 999L, 1008L, kCount - 1L})
        EXPECT_EQ(is[place], ranks * (value + (ranks - 1) / 2)) << place;
    }
  }

  Comm comm_ = world().comm().duplicate();
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Event>> joined_;
  std::unique_ptr<Reducer> reducers_[2];
};

TEST_F(OneGpu, SumsAreRepeatedAsAGraphAndAbortedWhenARankIsMissing) {
  for (const float value : {1, 2}) expect_sums(value, [&] { reduce(); });
  std::unique_ptr<Graph> graph = device_->capture(*stream_, [&] { reduce(); });
  for (const float value : {3, 4, 5}) expect_sums(value, [&] { graph->launch(*stream_); });
  if (comm_.rank() == 0) graph->launch(*stream_);  // the others never come
  const double began = now_seconds();
  graph.reset();  // before the abort, which waits for it
  for (const auto& reducer : reducers_) reducer->abort();
  stream_->synchronize();
  for (auto& reducer : reducers_) reducer.reset();
  EXPECT_LT(now_seconds() - began, 15) << "the abort hangs";
}

}  // namespace
}  // namespace lockstep
