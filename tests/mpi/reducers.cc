// Every reducer of the menu under every progress policy: exact sums, the same bits on all ranks,
// the canonical order where it is promised; several buckets, several steps, ranks that are late by
// chance.
#include "collectives/reducers/reducers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "collectives/algorithms.h"
#include "collectives/buckets.h"
#include "collectives/comm/communicator.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducers/device_choice.h"
#include "collectives/reducers/measured_link.h"
#include "collectives/reducers/owner_sums.h"
#include "collectives/run.h"
#include "src/base/random.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/nccl_double.h"
#include "tests/support/peers_double.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

/// Parts of the given lengths, one after another, each aligned to 16 elements, and how they are cut
/// into buckets.
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
  /// Gradients in memory of a device that works later and elsewhere (tests/support/async_device.h).
  bool staged = false;
};

bool is_later_algorithm(std::string_view name) {
  const auto later = algorithms().subspan(1);
  return std::any_of(later.begin(), later.end(), [&](auto& entry) { return entry.name == name; });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const ReducerEntry& reducer : reducers()) {
    if (reducer.on_device) continue;  // below, on doubles
    for (const PolicyEntry& policy : policies()) {
      if (!policy.policy || policy.policy == Policy::stream) continue;
      // One executor carries out all algorithms: the policies see the first of them alone.
      if (is_later_algorithm(reducer.name) && policy.policy != Policy::poll) continue;
      for (const Layout& layout : kLayouts)
        cases.push_back({std::string(reducer.name), *policy.policy, &layout});
      for (const int layout : {0, 3, 5})
        cases.push_back({std::string(reducer.name), *policy.policy, kLayouts + layout, true});
    }
  }
  for (const Policy policy : {Policy::wait, Policy::poll, Policy::thread}) {
    for (const int layout : {0, 3, 5}) {
      if (policy == Policy::wait) continue;  // as those of its halves
      cases.push_back({"on_pairs", policy, kLayouts + layout});
      cases.push_back({"on_odd_and_even", policy, kLayouts + layout});
    }
    for (const int layout : {0, 1, 3, 5})
      cases.push_back({"cuda_ipc", policy, kLayouts + layout, true});
  }
  for (const int layout : {0, 3, 5})
    cases.push_back({"nccl", Policy::stream, kLayouts + layout, true});
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const char* policies[] = {"wait", "poll", "thread", "stream"};
  return info.param.reducer + "_" + policies[static_cast<int>(info.param.policy)] + "_" +
         info.param.layout->name + (info.param.staged ? "_staged" : "");
}

/// What rank `rank` contributes to element `i` at `step`: an integer, so that every order of adding
/// gives the same bits.
float integer(int rank, int step, std::int64_t i) {
  return static_cast<float>((rank + 1) * (i % 97 + 1) + 1000 * step);
}

/// Scattered over several powers of two, so that another order of adding gives other bits.
float random_value(int rank, int step, std::int64_t i) {
  auto word = static_cast<std::uint32_t>(i * 100 + rank * 10 + step + 1) * 2654435761u;
  word = (word ^ (word >> 15)) * 2246822519u;
  return static_cast<float>(static_cast<std::int32_t>(word ^ (word >> 13))) *
         std::ldexp(1.0f, static_cast<int>(i % 11) - 31);
}

/// The sum in the order that collectives/schedule.h defines.
float canonical_sum(Floats shards) {
  for (std::size_t d = 1; d < shards.size(); d *= 2) {
    for (std::size_t r = 0; r + d < shards.size(); r += 2 * d) shards[r] += shards[r + d];
  }
  return shards[0];
}

void sleep_by_chance(Random& random) {
  const std::uint32_t microseconds = random.below(4) == 0 ? random.below(400) : 0;
  if (microseconds > 0) std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
}

/// The ranks of this one's group, as if each group were a host.
Comm group_of(const Comm& comm, int group) {
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split(raw(comm), group, comm.rank(), &node));
  return Comm(std::make_shared<const Communicator>(node, /*owned=*/true));
}

/// hierarchical, as if the ranks of each group were on a host of their own.
std::unique_ptr<Reducer> make_on_groups(const ReducerSpec& spec, int group) {
  return make_hierarchical_reducer(spec, group_of(spec.comm, group));
}

class EveryReducer : public testing::TestWithParam<Case> {
 protected:
  EveryReducer()
      : comm_(world().comm().duplicate()),
        device_(GetParam().staged ? make_async_device() : make_cpu_device(1)),
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
               : name == "cuda_ipc"        ? make_peer_reducer(spec, make_peers_double)
                                           : make_reducer(name, spec);
  }

  bool not_allowed() const {
    const bool elsewhere = GetParam().policy == Policy::stream ||  // the double speaks MPI
                           (GetParam().policy == Policy::thread && reducer_->traits().speaks_mpi);
    return elsewhere && !world().threads_allowed();
  }

  std::size_t bytes() const { return count_ * sizeof(float); }
  /// Of the host: what is copied to the gradients, and after a step the sums.
  float* host() const { return reinterpret_cast<float*>(host_.get()); }

  /// One step: writes value(rank, step, i) part by part, as a backward pass would, and finishes.
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

  Comm comm_;
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

TEST_P(EveryReducer, sums_exactly_and_calls_back_once_per_bucket_and_step) {
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
    // Where an update would be given, the sum is found.
    reducer_->stream().give([&, range, gradients = reducer_->gradients()] {
      for (const Range& part : parts_) {
        if (!range.contains(part) || part.count == 0) continue;
        wrong_in_order += gradients[part.begin] != expected(part.begin);
        wrong_in_order += gradients[part.end() - 1] != expected(part.end() - 1);
      }
    });
  });
  Random delays(1, Purpose::generate, 0, static_cast<std::uint32_t>(comm_.rank()));
  for (; step < 6; ++step) {
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

TEST_P(EveryReducer, gives_the_same_bits_on_all_ranks_and_the_canonical_ones_where_promised) {
  if (not_allowed()) GTEST_SKIP();
  GradientBuckets buckets(*reducer_, buckets_, GetParam().policy, [](int, Range) {});
  Random delays(2, Purpose::generate, 0, static_cast<std::uint32_t>(comm_.rank()));
  for (int step = 0; step < 2; ++step) {
    run_step(buckets, step, random_value, delays);
    const std::string mine(reinterpret_cast<const char*>(host()), bytes());
    EXPECT_TRUE(world().comm().broadcast(mine) == mine) << "the sums are not the same as on rank 0";
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

INSTANTIATE_TEST_SUITE_P(Menu, EveryReducer, testing::ValuesIn(all_cases()), name_of);

class AnyReducer : public testing::TestWithParam<std::string> {};

TEST_P(AnyReducer, gives_zeroed_aligned_memory_that_is_its_ranks_own) {
  const Comm comm = world().comm().duplicate();
  const auto device = make_cpu_device(1);
  const std::int64_t count = 3000;
  const auto reducer = make_reducer(GetParam(), {comm, *device, count, {{0, count}}, ""});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(reducer->gradients()) % 4096, 0u);
  for (std::int64_t i = 0; i < count; ++i) ASSERT_EQ(reducer->gradients()[i], 0);
  comm.barrier();
  std::fill_n(reducer->gradients(), count, static_cast<float>(comm.rank()));
  comm.barrier();
  for (std::int64_t i = 0; i < count; ++i)
    ASSERT_EQ(reducer->gradients()[i], static_cast<float>(comm.rank()));
  const ReducerTraits& traits = reducer->traits();
  if (GetParam() != "auto") {
    EXPECT_EQ(traits.name, GetParam());
  }
  EXPECT_EQ(traits.description.find(traits.name), 0u) << traits.description;
  comm.barrier();
}

TEST_P(AnyReducer, leaves_elements_outside_of_its_buckets_alone_however_long_a_message_may_be) {
  for (const std::size_t largest : {std::size_t{1000}, world().comm().largest_message()}) {
    const Comm comm = world().comm().duplicate().with_largest_message(largest);
    const auto device = make_cpu_device(1);
    const auto reducer =
        make_reducer(GetParam(), {comm, *device, 20000, {{16, 100}, {1000, 9001}}, ""});
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

/// The error that all ranks throw.
std::string refusal(const std::function<void()>& make) {
  try {
    make();
  } catch (const AgreedError& error) {
    return error.what();
  }
  return "";
}

TEST_P(AnyReducer, sums_buckets_that_lie_in_any_order_at_any_place) {
  const Comm comm = world().comm().duplicate();
  const auto device = make_cpu_device(1);
  const std::vector<Range> buckets = {{50, 901}, {0, 0}, {1, 49}, {951, 49}, {951, 0}};
  const auto reducer = make_reducer(GetParam(), {comm, *device, 1000, buckets, ""});
  std::fill_n(reducer->gradients(), 1000, 1.0f);
  for (int i = 0; i < std::ssize(buckets); ++i) reducer->start(i);
  for (int i = 0; i < std::ssize(buckets); ++i) reducer->finish(i);
  EXPECT_EQ(reducer->gradients()[0], 1.0f);
  for (int i = 1; i < 1000; ++i)
    ASSERT_EQ(reducer->gradients()[i], static_cast<float>(comm.size())) << i;
}

TEST_P(AnyReducer, refuses_impossible_arguments) {
  const Comm comm = world().comm().duplicate();
  const auto device = make_cpu_device(1);
  const auto line = [&](std::int64_t count, std::vector<Range> buckets) {
    return refusal([&] { make_reducer(GetParam(), {comm, *device, count, buckets, ""}); });
  };
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  for (const Range wrong : {Range{-1, 5}, {0, -1}, {90, 11}, {101, 0}, {kHuge, 1}, {1, kHuge}}) {
    const std::string text = line(100, {{0, 10}, wrong});
    EXPECT_EQ(text.find(fmt::format("bucket 1 (begin {}, count {})", wrong.begin, wrong.count)), 0u)
        << text;
  }
  const std::string text = line(100, {{50, 50}, {0, 0}, {0, 51}});
  EXPECT_EQ(text.find("bucket 2 (begin 0, count 51) overlaps bucket 0 (begin 50, count 50)"), 0u)
      << text;
  for (const std::int64_t count : {std::int64_t{-1}, kHuge, kHuge / 4}) {
    const std::string of_count = line(count, {});
    EXPECT_NE(of_count.find(fmt::format("count is {}.", count)), std::string::npos) << of_count;
  }
}

TEST_P(AnyReducer, refuses_ranks_that_disagree) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees";
  const auto device = make_cpu_device(1);
  const bool last = comm.rank() == comm.size() - 1;
  const auto expect_refused = [&](const char* here, const char* there, auto change) {
    ReducerSpec spec{comm, *device, 100, {{0, 50}, {50, 50}}};
    if (last) change(spec);
    const std::string text = refusal([&] { make_reducer(GetParam(), spec); });
    const std::string values = fmt::format("\"{}\" here, \"{}\" on rank 0", here, there);
    EXPECT_NE(text.find(values), std::string::npos) << text;
    EXPECT_EQ(text.find(fmt::format("rank {} (", comm.size() - 1)), 0u) << text;
  };
  expect_refused("count = 2000000", "count = 100", [](ReducerSpec& spec) { spec.count = 2000000; });
  expect_refused("number of buckets = 1", "number of buckets = 2",
                 [](ReducerSpec& spec) { spec.buckets.pop_back(); });
  expect_refused("bucket 1 = begin 50, count 49", "bucket 1 = begin 50, count 50",
                 [](ReducerSpec& spec) { spec.buckets.back().count = 49; });
  expect_refused("exact = 1", "exact = 0", [](ReducerSpec& spec) { spec.exact = 1; });
  expect_refused("overflows = true", "overflows = false",
                 [](ReducerSpec& spec) { spec.overflows = true; });
  expect_refused("one_by_one = true", "one_by_one = false",
                 [](ReducerSpec& spec) { spec.one_by_one = true; });
}

TEST(Reducers, are_the_same_on_all_ranks) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) GTEST_SKIP() << "one rank agrees";
  const auto device = make_cpu_device(1), other = make_async_device();
  const bool last = comm.rank() == comm.size() - 1;
  const ReducerSpec spec{comm, *device, 100, {{0, 100}}};
  std::string text = refusal([&] { make_reducer(last ? "ring" : "tree", spec); });
  EXPECT_NE(text.find("\"reducer = ring\" here, \"reducer = tree\""), std::string::npos) << text;
  const ReducerSpec elsewhere{comm, last ? *other : *device, 100, {{0, 100}}};
  text = refusal([&] { make_reducer("tree", elsewhere); });
  EXPECT_NE(text.find("\"memory = device\" here, \"memory = host\""), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(Menu, AnyReducer, [] {
  std::vector<std::string> names;
  for (const ReducerEntry& entry : reducers()) {
    if (!entry.on_device) names.emplace_back(entry.name);
  }
  return testing::ValuesIn(names);
}());

/// A reducer of NCCL's double, of three buckets of one element.
class Nccl : public testing::Test {
 protected:
  std::unique_ptr<Reducer> make(NcclDouble& library, double timeout_seconds = 60) {
    ReducerSpec spec{comm_, *device_, 48, {{0, 1}, {16, 1}, {32, 1}}};
    spec.timeout_seconds = timeout_seconds;
    return make_nccl_reducer(spec, library);
  }

  Comm comm_ = world().comm().duplicate();
  std::unique_ptr<Device> device_ = make_async_device();
};

TEST_F(Nccl, releases_its_memory_then_leaves_then_is_destroyed) {
  NcclDouble library(comm_, *device_);
  auto reducer = make(library);
  for (const int bucket : {0, 1, 2}) reducer->start(bucket);
  EXPECT_FALSE(reducer->advance());
  reducer.reset();
  EXPECT_EQ(library.calls(),
            (std::vector<std::string>{"connect", "allocate", "release", "finish", "destroy"}));
}

TEST_F(Nccl, aborts_where_it_reports_an_error_and_does_not_wait_for_the_sum) {
  NcclDouble library(comm_, *device_, {.sums_until_error = 1});
  const auto reducer = make(library);
  reducer->start(0);
  EXPECT_FALSE(reducer->advance());
  EXPECT_THROW(
      {
        reducer->start(1);
        for (;;) reducer->advance();  // until the stream comes to it
      },
      Error);
  EXPECT_EQ(library.calls().back(), "abort");
  reducer->stream().synchronize();
  EXPECT_THROW(reducer->start(2), Error) << "it is gone";
}

TEST_F(Nccl, aborts_on_the_way_out_of_an_error_instead_of_waiting_for_others) {
  NcclDouble library(comm_, *device_);
  EXPECT_THROW(
      {
        const auto reducer = make(library);
        fail("elsewhere");
      },
      Error);
  EXPECT_EQ(library.calls(),
            (std::vector<std::string>{"connect", "allocate", "abort", "release", "destroy"}));
}

TEST_F(Nccl, that_one_rank_cannot_connect_is_said_on_all_without_waiting_for_the_deadline) {
  const bool last = comm_.rank() == comm_.size() - 1;
  NcclDouble library(comm_, *device_, {.connects = comm_.size() == 1, .refuses = last});
  const std::string line = refusal([&] { make(library); });
  EXPECT_NE(line.find("internal error"), std::string::npos) << line;
}

TEST_F(Nccl, a_rank_that_never_connects_is_met_by_the_deadline) {
  NcclDouble library(comm_, *device_, {.connects = comm_.rank() != 0});
  const std::string line = refusal([&] { make(library, 0.05); });
  EXPECT_NE(line.find("NCCL has not connected"), std::string::npos) << line;
  EXPECT_EQ(library.calls(), (std::vector<std::string>{"connect", "abort", "destroy"}));
}

TEST_F(Nccl, ranks_of_two_versions_are_refused_before_they_connect) {
  if (comm_.size() == 1) GTEST_SKIP() << "one rank has one version";
  NcclDouble library(comm_, *device_, {.version = comm_.rank() == 1 ? 21805 : 22809});
  const std::string line = refusal([&] { make(library); });
  EXPECT_NE(
      line.find("versions of NCCL differ: \"nccl = 2.18.5\" here, \"nccl = 2.28.9\" on rank 0"),
      std::string::npos)
      << line;
  EXPECT_EQ(library.calls().size(), 0u);
}

bool is_summed(std::int64_t i) { return i < 1000 || (i >= 1008 && i < 2999); }

/// A reducer that rounds to `wire` between ranks (owners) or pairs of them, with two buckets and a
/// mail of 16 elements.
struct Rounded {
  static constexpr std::int64_t kCount = 3000, kExact = 16;

  Rounded(const Comm& comm, Device& device, Type wire, bool on_pairs) {
    ReducerSpec spec{comm.duplicate(), device, kCount, {{0, 1000}, {1008, 1991}}};
    spec.wire = wire;
    spec.exact = kExact;
    reducer = on_pairs ? make_on_groups(spec, comm.rank() / 2) : make_reducer("owners", spec);
  }
  /// One step with value(i) of this rank; the sums.
  template <class Value>
  Floats sum(Value value) {
    float* gradients = reducer->gradients();
    for (std::int64_t i = 0; i < kCount; ++i) gradients[i] = is_summed(i) ? value(i) : 0;
    for (const int bucket : {0, 1}) reducer->start(bucket);
    for (const int bucket : {1, 0}) reducer->finish(bucket);
    return Floats(gradients, gradients + kCount);
  }
  std::unique_ptr<Reducer> reducer;
};

class Wire : public testing::TestWithParam<std::tuple<Type, bool>> {
 protected:
  Comm comm_ = world().comm();
  std::unique_ptr<Device> device_ = make_cpu_device(1);
  Rounded made() { return {comm_, *device_, std::get<0>(GetParam()), std::get<1>(GetParam())}; }
};

TEST_P(Wire, sums_exactly_what_its_type_holds) {
  Rounded rounded = made();
  const int ranks = comm_.size();
  const Floats sums =
      rounded.sum([&](std::int64_t i) { return static_cast<float>((comm_.rank() + 1) * (i % 9)); });
  for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
    const auto all = static_cast<float>(ranks * (ranks + 1) / 2 * (i % 9));
    if (is_summed(i)) {
      ASSERT_EQ(sums[i], all) << i;
    }
  }
}

TEST_P(Wire, loses_nothing_over_many_steps_and_gives_all_ranks_the_same_bits) {
  Rounded rounded = made();
  std::vector<double> arrived(Rounded::kCount), sent(Rounded::kCount), size(Rounded::kCount);
  bool rounds = false;
  for (int step = 0; step < 40; ++step) {
    const Floats sums =
        rounded.sum([&](std::int64_t i) { return random_value(comm_.rank(), step, i); });
    const std::string mine(reinterpret_cast<const char*>(sums.data()), Rounded::kCount * 4);
    ASSERT_TRUE(comm_.broadcast(mine) == mine) << "step " << step;
    for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
      const auto at = static_cast<std::size_t>(i);
      Floats shards;
      for (int rank = 0; rank < comm_.size(); ++rank) shards.push_back(random_value(rank, step, i));
      const float exact = canonical_sum(shards);
      if (i < Rounded::kExact && rounded.reducer->traits().name == "owners") {
        ASSERT_EQ(sums[at], exact) << "the mail";
      }
      arrived[at] += sums[at];
      sent[at] += exact;
      size[at] += std::fabs(exact);
      rounds |= is_summed(i) && sums[at] != exact;
    }
  }
  const int senders = std::get<1>(GetParam()) ? (comm_.size() + 1) / 2 : comm_.size();
  EXPECT_EQ(rounds, senders > 1);
  EXPECT_EQ(rounded.reducer->traits().canonical, senders == 1);
  Floats still(Rounded::kCount);
  if (const float* kept = rounded.reducer->traits().residual)
    std::copy_n(kept, Rounded::kCount, still.begin());
  for (std::int64_t i = 0; i < Rounded::kCount; ++i) {
    if (!is_summed(i)) continue;
    const auto at = static_cast<std::size_t>(i);
    const auto of_all = static_cast<double>(comm_.sum(std::llround(still[at] * 0x1p40)));
    ASSERT_NEAR(arrived[at] + of_all * 0x1p-40, sent[at], 2e-6 * size[at]) << i;
  }
}

TEST_P(Wire, goes_on_with_what_was_kept_back_as_if_it_had_never_stopped) {
  Rounded whole = made(), before = made(), after = made();
  const auto step = [&](Rounded& rounded, int number) {
    return rounded.sum([&](std::int64_t i) { return random_value(comm_.rank(), number, i); });
  };
  for (int number = 0; number < 3; ++number) step(whole, number), step(before, number);
  if (const float* kept = before.reducer->traits().residual)
    std::copy_n(kept, Rounded::kCount, after.reducer->traits().residual);
  for (int number = 3; number < 6; ++number) EXPECT_EQ(step(whole, number), step(after, number));
}

INSTANTIATE_TEST_SUITE_P(Types, Wire,
                         testing::Combine(testing::Values(Type::bf16, Type::f16), testing::Bool()),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_between_pairs" : "_between_ranks");
                         });

TEST(MakeReducer, sixteen_bits_are_refused_where_nothing_rounds) {
  const auto device = make_cpu_device(1);
  for (const char* name : {"tree", "ring", "mpi", "shared"}) {
    ReducerSpec spec{world().comm(), *device, 10, {{0, 10}}};
    spec.wire = Type::bf16;
    const std::string line = refusal([&] { make_reducer(name, spec); });
    EXPECT_NE(line.find("--wire bf16 is not for the reducer"), std::string::npos) << line;
  }
}

TEST(MakeReducer, an_unknown_name_is_answered_with_the_menu_on_all_ranks) {
  try {
    make_reducer("rnig", {world().comm(), *make_cpu_device(1), 10, {{0, 10}}, ""});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const AgreedError& error) {
    const std::string line = error.what();
    EXPECT_NE(line.find("\"ring\""), std::string::npos) << line;
    EXPECT_NE(line.find("halving_doubling"), std::string::npos) << line;
    EXPECT_EQ(error.exit_code(), kExitUsage);
  }
}

TEST(MakeReducer, that_of_devices_is_refused_for_gradients_of_the_host) {
  for (const ReducerEntry& entry : reducers()) {  // of a build without CUDA none
    if (!entry.on_device) continue;
    try {
      make_reducer(entry.name, {world().comm(), *make_cpu_device(1), 10, {{0, 10}}, ""});
      ADD_FAILURE() << "nothing was thrown";
    } catch (const AgreedError& error) {
      EXPECT_NE(std::string(error.what()).find("is for GPUs"), std::string::npos) << error.what();
    }
  }
}

TEST(MakeReducer, hierarchical_is_canonical_on_even_hosts_in_order) {
  const auto device = make_cpu_device(1);
  const Comm comm = world().comm().duplicate();
  const ReducerSpec spec{comm, *device, 10, {{0, 10}}};
  const int size = comm.size();
  EXPECT_EQ(make_on_groups(spec, comm.rank() / 2)->traits().canonical, size != 3);
  EXPECT_EQ(make_on_groups(spec, comm.rank() % 2)->traits().canonical, size <= 2);
  EXPECT_TRUE(make_on_groups(spec, 0)->traits().canonical) << "shared is";
}

TEST(Exchange, pieces_of_any_length_make_the_same_sum) {
  const Comm comm = world().comm().duplicate();
  constexpr std::int64_t kCount = 101;
  const int size = comm.size(), sum = size * (size + 1) / 2;
  int tag = 0;
  for (const std::size_t piece : {std::size_t{4}, std::size_t{12}, 2 * kCount * sizeof(float)}) {
    Floats kept(kCount);
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (const AlgorithmEntry& entry : algorithms()) {
      exchanges.push_back(std::make_unique<lockstep::Run>(
          comm, entry.algorithm(comm.rank(), size, kCount), piece, tag++));
    }
    for (const Type wire : {Type::f32, Type::bf16}) {
      static Floats kept(kCount);
      exchanges.push_back(
          std::make_unique<OwnerSums>(comm, kCount, 5, wire, false, kept.data(), piece, tag++));
    }
    for (const auto& exchange : exchanges) {
      Floats bucket(kCount, static_cast<float>(comm.rank() + 1));
      exchange->start(bucket.data());
      while (exchange->advance(/*wait=*/true)) continue;
      EXPECT_EQ(bucket, Floats(kCount, static_cast<float>(sum))) << piece;
    }
  }
}

TEST(MeasuredLink, is_the_same_on_all_ranks_and_could_be_true) {
  const Comm comm = world().comm().duplicate();
  for (const int ranks_of_a_host : {1, 2}) {
    const Link link = measure_link(comm, group_of(comm, comm.rank() / ranks_of_a_host));
    if (comm.size() <= ranks_of_a_host) {
      EXPECT_EQ(link.latency, Link().latency) << "nothing is between hosts";
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

/// By a clock that moves on by 1, 2, 3, 4, 5, 1, .. us from one look to the next.
TEST(MeasuredLink, is_the_best_of_its_rounds_and_who_measures_is_known_to_wait) {
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
  EXPECT_EQ(looks, comm.rank() == 0 ? 1 + 2 * 20 + 1 + 2 * 5 : 0);
  EXPECT_NEAR(link.latency, 0.5e-6, 1e-12);
  EXPECT_NEAR(link.bandwidth, (1 << 20) / 0.5e-6, 1e6);
}

TEST(MakeReducer, between_hosts_auto_measures_and_says_what) {
  const Comm comm = world().comm().duplicate();
  if (comm.size() == 1) return;
  const auto device = make_cpu_device(1);
  const auto made = [&](int ranks_of_a_host, std::vector<Range> buckets) {
    return make_network_reducer({comm, *device, 5000, std::move(buckets), ""},
                                group_of(comm, comm.rank() / ranks_of_a_host));
  };
  const auto apart = made(1, {{0, 1000}, {1000, 4000}});
  const std::string& text = apart->traits().description;
  EXPECT_NE(text.find("GB/s"), std::string::npos) << text;
  EXPECT_NE(text.find(" ms for 2 buckets of 0.0191 MiB together where "), std::string::npos)
      << text;
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
  EXPECT_EQ(pairs.name == "hierarchical", comm.size() != 3) << "uneven hosts have no order";
  EXPECT_TRUE(pairs.canonical);
  EXPECT_NE(made(1, {}), nullptr) << "nothing to sum, nothing to measure with";
}

TEST(MakeReducer, all_ranks_hear_what_each_says_of_its_device) {
  const Comm comm = world().comm();
  const auto record = [](int rank) {
    return DeviceRecord{"host " + std::to_string(rank), rank == 1 ? "" : "GPU-1", 22800 + rank,
                        rank % 2 == 0};
  };
  const std::vector<DeviceRecord> records = gather_records(comm, record(comm.rank()));
  ASSERT_EQ(records.size(), static_cast<std::size_t>(comm.size()));
  for (int rank = 0; rank < comm.size(); ++rank) {
    const DeviceRecord &is = records[rank], wanted = record(rank);
    EXPECT_EQ(is.host, wanted.host);
    EXPECT_EQ(is.uuid, wanted.uuid);
    EXPECT_EQ(is.nccl, wanted.nccl);
    EXPECT_EQ(is.ipc, wanted.ipc);
  }
}

TEST(MakeReducer, auto_is_shared_on_one_host_and_says_why) {
  const Comm comm = world().comm().duplicate();
  const auto device = make_cpu_device(1);
  const auto reducer = make_reducer("auto", {comm, *device, 10, {{0, 10}}, ""});
  const ReducerTraits& traits = reducer->traits();
  EXPECT_EQ(traits.name, "shared");
  EXPECT_NE(traits.description.find("because"), std::string::npos) << traits.description;
  EXPECT_TRUE(traits.canonical);
  EXPECT_FALSE(traits.speaks_mpi);
}

}  // namespace
}  // namespace lockstep
