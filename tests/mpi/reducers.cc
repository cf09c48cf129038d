// Every reducer under every progress policy: exact sums, identical on all ranks, and in the
// canonical order if promised; with several buckets, several steps, and random delays.
#include "collectives/reducers/reducers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/algorithms/algorithms.h"
#include "collectives/buckets.h"
#include "src/base/random.h"
#include "tests/mpi/reductions.h"
#include "tests/support/async_device.h"
#include "tests/support/nccl_double.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

/// Parts of the given lengths, each aligned to 16 elements, and the size of their buckets.
struct Layout {
  const char* name;
  std::vector<std::int64_t> lengths;
  std::int64_t bucket_bytes;

  std::vector<Range> parts() const {
    std::vector<Range> result;
    std::int64_t begin = 16;
    for (const std::int64_t length : lengths) {
      result.push_back({begin, length});
      begin = (begin + length + 15) / 16 * 16;
    }
    return result;
  }
  std::int64_t count() const { return parts().empty() ? 0 : (parts().back().end() + 15) / 16 * 16; }
};

const Layout kLayouts[] = {
    {"nothing", {}, 1 << 20},
    {"one_element", {1}, 1 << 20},
    {"empty_parts", {0, 5, 0}, 4},
    {"odd_and_short", {3, 1, 17, 0, 101, 16}, 256},
    {"all_but_the_last", {1000, 2000, 31}, 1 << 20},
    {"short_and_long", {10, 5000, 4096, 4097, 3, 100003, 64}, 20000},
    {"long", {300001}, 1 << 20},
};

struct Case {
  std::string reducer;
  Policy policy;
  const Layout* layout;
  /// Gradients in memory of an asynchronous device (tests/support/async_device.h).
  bool staged = false;
};

bool is_later_algorithm(std::string_view name) {
  const auto later = algorithms().subspan(1);
  return std::any_of(later.begin(), later.end(), [&](auto& entry) { return entry.name == name; });
}

/// Empty, short and long parts, by their places in kLayouts.
constexpr int kFewLayouts[] = {0, 3, 5};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const ReducerEntry& reducer : reducers()) {
    // Those of devices are below, with doubles. On one host auto is shared (the last test).
    if (reducer.on_device || reducer.name == "auto") continue;
    const std::string name(reducer.name);
    for (const Layout& layout : kLayouts) cases.push_back({name, Policy::poll, &layout});
    // One executor carries out all algorithms, so policies and staging are tested only with the
    // first. On one host hierarchical is shared; on_pairs and on_odd_and_even are below.
    if (is_later_algorithm(reducer.name) || name == "hierarchical") continue;
    for (const PolicyEntry& entry : policies()) {
      if (!entry.policy || entry.policy == Policy::stream) continue;
      for (const int layout : kFewLayouts) {
        for (const bool staged : {false, true}) {
          if (staged || entry.policy != Policy::poll)
            cases.push_back({name, *entry.policy, kLayouts + layout, staged});
        }
      }
    }
  }
  for (const Policy policy : {Policy::poll, Policy::thread}) {
    for (const int layout : kFewLayouts) {
      cases.push_back({"on_pairs", policy, kLayouts + layout});
      cases.push_back({"on_odd_and_even", policy, kLayouts + layout});
    }
  }
  for (const int layout : kFewLayouts)
    cases.push_back({"nccl", Policy::stream, kLayouts + layout, true});
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* policies[] = {"wait", "poll", "thread", "stream"};
  return info.param.reducer + "_" + policies[static_cast<int>(info.param.policy)] + "_" +
         info.param.layout->name + (info.param.staged ? "_staged" : "");
}

/// Element `i` of rank `rank` at `step`: an integer, so that every order of addition gives the same
/// bits.
float integer(int rank, int step, std::int64_t i) {
  return static_cast<float>((rank + 1) * (i % 97 + 1) + 1000 * step);
}

void sleep_by_chance(Random& random) {
  const std::uint32_t microseconds = random.below(4) == 0 ? random.below(400) : 0;
  if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

class EveryReducer : public testing::TestWithParam<Case> {
 protected:
  EveryReducer()
      : comm_(world().comm().duplicate()),
        device_(GetParam().staged ? make_async_device({.pageable_copies = &pageable_})
                                  : make_cpu_device(1)),
        nccl_(comm_, *device_),
        stream_(device_->stream()),
        updated_(device_->event()) {
    const Layout& layout = *GetParam().layout;
    parts_ = layout.parts();
    count_ = layout.count();
    buckets_ = cut_buckets(parts_, layout.bucket_bytes);
    host_ = device_->allocate(bytes(), Place::host);
    const ReducerSpec spec{comm_, *device_, count_, buckets_};
    const std::string& name = GetParam().reducer;
    reducer_ = name == "nccl"              ? make_nccl_reducer(spec, nccl_)
               : name == "on_pairs"        ? make_on_groups(spec, comm_.rank() / 2)
               : name == "on_odd_and_even" ? make_on_groups(spec, comm_.rank() % 2)
                                           : make_reducer(name, spec);
  }

  bool not_allowed() const {
    const bool elsewhere = GetParam().policy == Policy::stream ||  // the double calls MPI
                           (GetParam().policy == Policy::thread && reducer_->traits().calls_mpi);
    return elsewhere && !world().threads_allowed();
  }

  std::size_t bytes() const { return count_ * sizeof(float); }
  /// Memory of the host: first the gradients, after a step the sums.
  float* host() const { return reinterpret_cast<float*>(host_.get()); }

  /// One step: writes value(rank, step, i) part by part, as a backward pass does, and finishes.
  template <class Value>
  void run_step(GradientBuckets& buckets, int step, Value value, Random& delays) {
    float* gradients = reducer_->gradients();
    for (const Range& part : parts_) {
      sleep_by_chance(delays);
      for (std::int64_t i = part.begin; i < part.end(); ++i)
        host()[i] = value(comm_.rank(), step, i);
      device_->copy(*stream_, gradients + part.begin, host() + part.begin,
                    part.count * sizeof(float));
      const auto began = Clock::now();
      buckets.ready(part, *stream_);
      buckets.advance();
      in_calls_ += Clock::now() - began;
    }
    const auto began = Clock::now();
    buckets.finish();
    in_calls_ += Clock::now() - began;
    updated_->record(reducer_->stream());
    updated_->wait(*stream_);
    device_->copy(*stream_, host(), gradients, bytes());
    stream_->synchronize();
  }

  template <class Visit>
  void for_each_element(Visit visit) const {
    for (const Range& part : parts_) {
      for (std::int64_t i = part.begin; i < part.end(); ++i) visit(i);
    }
  }

  using Clock = std::chrono::steady_clock;

  void TearDown() override { EXPECT_EQ(pageable_, 0) << "copies that would block a GPU"; }

  Comm comm_;
  std::atomic<int> pageable_ = 0;
  std::unique_ptr<Device> device_;
  NcclDouble nccl_;
  std::unique_ptr<Stream> stream_;  ///< of the backward pass
  std::unique_ptr<Event> updated_;
  Memory host_;
  std::chrono::duration<double> in_calls_{};  ///< of run_step() to GradientBuckets
  std::vector<Range> parts_, buckets_;
  std::int64_t count_ = 0;
  std::unique_ptr<Reducer> reducer_;
};

TEST_P(EveryReducer, SumsExactlyAndCallsBackOncePerBucketAndStep) {
  if (not_allowed()) GTEST_SKIP();
  const int ranks = comm_.size();
  std::multiset<int> called;
  std::atomic<std::int64_t> wrong_in_order = 0;
  std::atomic<int> step = 0;
  const auto expected = [&](std::int64_t i) {
    return static_cast<float>(ranks * (ranks + 1) / 2 * (i % 97 + 1) + 1000 * step * ranks);
  };
  GradientBuckets buckets(*reducer_, buckets_, GetParam().policy, [&](int bucket, Range range) {
    called.insert(bucket);
    EXPECT_EQ(range, buckets_[bucket]);
    // Work that an update would give finds the sum.
    reducer_->stream().enqueue([&, range, gradients = reducer_->gradients()] {
      for (const Range& part : parts_) {
        if (!range.contains(part) || part.count == 0) continue;
        wrong_in_order += gradients[part.begin] != expected(part.begin);
        wrong_in_order += gradients[part.end() - 1] != expected(part.end() - 1);
      }
    });
  });
  Random delays(1, Purpose::generate, 0, static_cast<std::uint32_t>(comm_.rank()));
  for (; step < 4; ++step) {
    called.clear();
    run_step(buckets, step, integer, delays);
    EXPECT_EQ(called.size(), buckets_.size());
    EXPECT_EQ(std::set<int>(called.begin(), called.end()).size(), buckets_.size());
    EXPECT_EQ(wrong_in_order, 0) << "step " << step;
    std::int64_t wrong = 0;
    for_each_element([&](std::int64_t i) { wrong += host()[i] != expected(i); });
    ASSERT_EQ(wrong, 0) << "step " << step;
  }
  EXPECT_GT(buckets.exposed_seconds(), 0);
  EXPECT_LE(buckets.exposed_seconds(), in_calls_.count()) << "counted twice";
}

TEST_P(EveryReducer, IsIdenticalOnAllRanksAndCanonicalIfPromised) {
  if (not_allowed()) GTEST_SKIP();
  GradientBuckets buckets(*reducer_, buckets_, GetParam().policy, [](int, Range) {});
  Random delays(2, Purpose::generate, 0, static_cast<std::uint32_t>(comm_.rank()));
  for (int step = 0; step < 2; ++step) {
    run_step(buckets, step, random_value, delays);
    const std::string mine(reinterpret_cast<const char*>(host()), bytes());
    EXPECT_TRUE(world().comm().broadcast(mine) == mine) << "the sums differ from rank 0's";
    if (!reducer_->traits().canonical) continue;
    std::int64_t wrong = 0;
    for_each_element([&](std::int64_t i) {
      Floats shards;
      for (int rank = 0; rank < comm_.size(); ++rank) shards.push_back(random_value(rank, step, i));
      wrong += host()[i] != canonical_sum(shards);
    });
    EXPECT_EQ(wrong, 0) << "not the canonical order";
  }
}

INSTANTIATE_TEST_SUITE_P(Registry, EveryReducer, testing::ValuesIn(all_cases()), name_of);

/// A communicator and a device for reducers.
class MakeReducer : public testing::Test {
 protected:
  ReducerSpec spec(std::int64_t count, std::vector<Range> buckets) const {
    return {comm_, *device_, count, std::move(buckets), ""};
  }
  const Comm comm_ = world().comm().duplicate();
  const std::unique_ptr<Device> device_ = make_cpu_device(1);
};

class AnyReducer : public MakeReducer, public testing::WithParamInterface<std::string> {};

TEST_P(AnyReducer, ReturnsZeroedAlignedPrivateMemory) {
  const std::int64_t count = 3000;
  const auto reducer = make_reducer(GetParam(), spec(count, {{0, count}}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reducer->gradients()) % 4096, 0u);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(reducer->gradients()[i], 0);
  comm_.barrier();
  std::fill_n(reducer->gradients(), count, static_cast<float>(comm_.rank()));
  comm_.barrier();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(reducer->gradients()[i], static_cast<float>(comm_.rank()));
  const ReducerTraits& traits = reducer->traits();
  if (GetParam() != "auto") {
    EXPECT_EQ(traits.name, GetParam());
  }
  EXPECT_TRUE(mentions(traits.description, {traits.name}));
  comm_.barrier();
}

TEST_P(AnyReducer, DoesNotTouchElementsOutsideItsBucketsForAnyMessageLength) {
  for (const std::size_t largest : {std::size_t{1000}, world().comm().largest_message()}) {
    const Comm comm = comm_.with_largest_message(largest);
    const auto reducer =
        make_reducer(GetParam(), {comm, *device_, 20000, {{16, 100}, {1000, 9001}}, ""});
    std::fill_n(reducer->gradients(), 20000, 1.0f);
    for (const int bucket : {0, 1}) reducer->start(bucket);
    for (const int bucket : {1, 0}) reducer->finish(bucket);
    const auto size = static_cast<float>(comm.size());
    for (std::int64_t i = 0; i < 20000; ++i) {
      const bool inside = (i >= 16 && i < 116) || (i >= 1000 && i < 10001);
      ASSERT_EQ(reducer->gradients()[i], inside ? size : 1.0f) << i;
    }
    EXPECT_FALSE(reducer->advance());
  }
}

TEST_P(AnyReducer, SumsBucketsInAnyOrderAtAnyPlace) {
  const std::vector<Range> buckets = {{50, 901}, {0, 0}, {1, 49}, {951, 49}, {951, 0}};
  const auto reducer = make_reducer(GetParam(), spec(1000, buckets));
  std::fill_n(reducer->gradients(), 1000, 1.0f);
  for (int i = 0; i < std::ssize(buckets); ++i) reducer->start(i);
  for (int i = 0; i < std::ssize(buckets); ++i) reducer->finish(i);
  EXPECT_EQ(reducer->gradients()[0], 1.0f);
  for (int i = 1; i < 1000; ++i)
    ASSERT_EQ(reducer->gradients()[i], static_cast<float>(comm_.size())) << i;
}

TEST_P(AnyReducer, RefusesImpossibleArguments) {
  const auto expect_refused = [&](std::int64_t count, const std::vector<Range>& buckets,
                                  const std::vector<std::string_view>& words) {
    expect_agreed_error(words, [&] { make_reducer(GetParam(), spec(count, buckets)); });
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const Range wrong : {Range{-1, 5}, {0, -1}, {90, 11}, {101, 0}, {kHuge, 1}, {1, kHuge}}) {
    expect_refused(
        100, {{0, 10}, wrong},
        {"bucket 1", fmt::format("begin {}", wrong.begin), fmt::format("count {}", wrong.count)});
  }
  expect_refused(100, {{50, 50}, {0, 0}, {0, 51}},
                 {"bucket 2", "begin 0", "count 51", "bucket 0", "begin 50", "count 50"});
  for (const std::int64_t count : {std::int64_t{-1}, kHuge, kHuge / 4})
    expect_refused(count, {}, {"count", fmt::format("{}", count)});
}

/// A device whose system refuses to page-lock memory.
class PageableDevice : public WrappedDevice {
 public:
  PageableDevice() {
    traits_.memory_is_host = false;
    pin_ = [](std::byte*, std::size_t) -> Memory { throw Error("operation not permitted"); };
  }
};

TEST_F(MakeReducer, NamesWhyMemoryIsNotPinned) {
  PageableDevice device;
  const auto reducer = make_reducer("tree", {comm_, device, 100, {{0, 100}}});
  EXPECT_TRUE(mentions(reducer->traits().description,
                       {"staged in host memory (not pinned: operation not permitted)"}));
  std::fill_n(reducer->gradients(), 100, 1.0f);
  reducer->start(0);
  reducer->finish(0);
  EXPECT_EQ(reducer->gradients()[99], static_cast<float>(comm_.size()));
}

TEST_F(MakeReducer, MustBeTheSameOnAllRanks) {
  if (comm_.size() == 1) GTEST_SKIP() << "one rank agrees";
  const auto other = make_async_device();
  const bool last = comm_.rank() == comm_.size() - 1;
  expect_agreed_error({"reducer = ring", "reducer = tree"}, [&] {
    make_reducer(last ? "ring" : "tree", spec(100, {{0, 100}}));
  });
  const ReducerSpec elsewhere{comm_, last ? *other : *device_, 100, {{0, 100}}};
  expect_agreed_error({"memory = device", "memory = host"},
                      [&] { make_reducer("tree", elsewhere); });
}

INSTANTIATE_TEST_SUITE_P(Registry, AnyReducer, [] {
  std::vector<std::string> names;
  for (const ReducerEntry& entry : reducers()) {
    if (!entry.on_device) names.emplace_back(entry.name);
  }
  return testing::ValuesIn(names);
}());

TEST_F(MakeReducer, AnUnknownNamePrintsTheRegistryOnAllRanks) {
  expect_agreed_error({"\"ring\"", "halving_doubling"}, [&] {
    make_reducer("rnig", spec(10, {{0, 10}}));
  });
}

TEST_F(MakeReducer, AReducerOfGpusIsRefusedForGradientsOfTheHost) {
  for (const ReducerEntry& entry : reducers()) {  // none in a build without CUDA
    if (entry.on_device)
      expect_agreed_error({"GPU"}, [&] { make_reducer(entry.name, spec(10, {{0, 10}})); });
  }
}

TEST_F(MakeReducer, AutoIsSharedOnOneHostWithAReason) {
  const auto reducer = make_reducer("auto", spec(10, {{0, 10}}));
  const ReducerTraits& traits = reducer->traits();
  EXPECT_EQ(traits.name, "shared");
  EXPECT_TRUE(mentions(traits.description, {"because"}));
  EXPECT_TRUE(traits.canonical);
  EXPECT_FALSE(traits.calls_mpi);
}

}  // namespace
}  // namespace lockstep
