// Cutting buckets, and the order of calls between the backward pass, GradientBuckets and a reducer,
// under each progress policy.
#include "collectives/buckets.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

using Ranges = std::vector<Range>;

TEST(CutBuckets, ClosesABucketBeforeAPartThatExceedsTheSize) {
  const Ranges parts = {{0, 16}, {16, 16}, {32, 16}, {48, 64}, {112, 16}};
  EXPECT_EQ(cut_buckets(parts, 128), (Ranges{{0, 32}, {32, 16}, {48, 64}, {112, 16}}));
  EXPECT_EQ(cut_buckets(parts, 127), parts);
  EXPECT_EQ(cut_buckets(parts, 1), parts);
  EXPECT_EQ(cut_buckets(parts, 1 << 20), (Ranges{{0, 112}, {112, 16}}))
      << "the last part begins a bucket";
  EXPECT_EQ(cut_buckets({{0, 16}}, 1 << 20), (Ranges{{0, 16}}));
  EXPECT_EQ(cut_buckets({}, 1 << 20), Ranges{});
}

TEST(CutBuckets, SplitsAPartThatIsLongerThanABucketIntoEqualOnes) {
  const std::int64_t kib = 1 << 10;  // 1 MiB is 256 Ki elements
  const Ranges parts = {{0, 16}, {16, 900 * kib}, {16 + 900 * kib, 10}, {32 + 900 * kib, 10}};
  EXPECT_EQ(cut_buckets(parts, 1 << 20), (Ranges{{0, 16},
                                                 {16, 225 * kib},
                                                 {16 + 225 * kib, 225 * kib},
                                                 {16 + 450 * kib, 225 * kib},
                                                 {16 + 675 * kib, 225 * kib + 10},
                                                 {32 + 900 * kib, 10}}))
      << "a short part joins the last of them";
  EXPECT_EQ(cut_buckets({{16, 256 * kib}}, 1 << 20), (Ranges{{16, 256 * kib}}));
  EXPECT_EQ(cut_buckets({{16, 256 * kib + 1}}, 1 << 20),
            (Ranges{{16, 128 * kib + 16}, {32 + 128 * kib, 128 * kib - 15}}));
}

TEST(CutBuckets, SplitsNoShortParts) {
  const Ranges buckets = cut_buckets({{16, 3 * kLeastSplit + 5}}, 1);
  EXPECT_EQ(buckets.size(), 4u);
  EXPECT_EQ(buckets.back().end(), 16 + 3 * kLeastSplit + 5);
  for (const Range& bucket : buckets) EXPECT_EQ(bucket.begin % 16, 0);
}

TEST(CutBuckets, KeepsGapsOfAlignmentInsideABucket) {
  EXPECT_EQ(cut_buckets({{16, 3}, {32, 5}, {48, 1}}, 4 * 21), (Ranges{{16, 21}, {48, 1}}));
}

TEST(CutBuckets, CoversEveryPartOnceInOrder) {
  Ranges parts;
  for (std::int64_t i = 0, begin = 0; i < 100; ++i) {
    parts.push_back({begin, i * 37 % 23});
    begin = (parts.back().end() + 15) / 16 * 16;
  }
  for (const std::int64_t bytes : {1, 64, 100, 400, 4000, 100000}) {
    const Ranges buckets = cut_buckets(parts, bytes);
    std::size_t bucket = 0;
    for (const Range& part : parts) {
      if (!buckets[bucket].contains(part)) ++bucket;
      ASSERT_LT(bucket, buckets.size());
      EXPECT_TRUE(buckets[bucket].contains(part));
    }
    EXPECT_EQ(bucket + 1, buckets.size());
  }
}

/// Gets all work of the backward pass.
HostStream writer;

/// A reducer without ranks: advance() completes the youngest started bucket, so that buckets
/// complete out of order. Records the threads that call it.
class FakeReducer : public Reducer {
 public:
  explicit FakeReducer(std::size_t buckets) : state_(buckets, State::idle) {
    traits_ = {.name = "fake", .canonical = true, .calls_mpi = true};
  }
  using Reducer::traits_;

  float* gradients() override { return nullptr; }
  void written(int bucket, Stream& stream) override {
    EXPECT_EQ(&stream, &writer);
    EXPECT_EQ(compute, std::this_thread::get_id()) << "not on the compute thread";
    EXPECT_EQ(bucket, written_to++) << "out of order";
  }
  void start(int bucket) override {
    const Call call(*this);
    if (fail_in_start) fail("there is no network");
    EXPECT_EQ(state_[bucket], State::idle) << "started twice";
    EXPECT_TRUE(started.empty() || started.back() < bucket) << "started out of order";
    EXPECT_GT(written_to, bucket) << "started before it was written";
    started.push_back(bucket);
    if (std::this_thread::get_id() == compute) ++own_starts;
    state_[bucket] = traits_.in_stream ? State::done : State::started;
    ++starts;
  }
  bool advance() override {
    const Call call(*this);
    ++advances;
    const bool own = std::this_thread::get_id() == compute;
    if (own) ++own_advances;
    if (fail_in_advance || (fail_elsewhere && !own)) fail("the network is gone");
    const auto youngest = std::find(state_.rbegin(), state_.rend(), State::started);
    EXPECT_TRUE(youngest != state_.rend() || own) << "another thread looks without work";
    if (youngest != state_.rend() && !silent) *youngest = State::done;
    return std::count(state_.begin(), state_.end(), State::started) > 0;
  }
  bool done(int bucket) const override { return state_[bucket] == State::done; }
  void finish(int bucket) override {
    const Call call(*this);
    if (fail_in_advance) fail("the network is gone");
    EXPECT_EQ(state_[bucket], State::started);
    state_[bucket] = State::done;
  }
  Stream& stream() override { return stream_; }

  void next_step() {
    state_.assign(state_.size(), State::idle);
    started.clear();
    written_to = 0;
  }

  std::vector<int> started;
  std::atomic<int> written_to = 0;  ///< buckets of this step
  const std::thread::id compute = std::this_thread::get_id();
  std::atomic<int> starts = 0, advances = 0;
  std::atomic<int> own_starts = 0, own_advances = 0;  ///< by the compute thread
  std::set<std::thread::id> callers;
  std::atomic<bool> fail_in_start = false, fail_in_advance = false, fail_elsewhere = false;
  std::atomic<bool> silent = false;  ///< no message comes

 private:
  enum class State { idle, started, done };
  /// One call at a time, from any thread.
  struct Call {
    explicit Call(FakeReducer& of) : reducer(of) {
      EXPECT_FALSE(reducer.called_.exchange(true)) << "two calls at once";
      reducer.callers.insert(std::this_thread::get_id());
    }
    ~Call() { reducer.called_ = false; }
    FakeReducer& reducer;
  };
  std::atomic<bool> called_ = false;
  std::vector<State> state_;
  HostStream stream_;
};

constexpr Policy kAllPolicies[] = {Policy::wait, Policy::poll, Policy::thread};

const Ranges kBuckets = {{0, 10}, {16, 32}, {48, 5}, {64, 0}, {64, 100}};

class EveryPolicy : public testing::TestWithParam<Policy> {};

TEST_P(EveryPolicy, StartsEachBucketInOrderAndCallsBackOncePerStep) {
  FakeReducer reducer(kBuckets.size());
  std::multiset<int> called;
  GradientBuckets buckets(reducer, kBuckets, GetParam(), [&](int bucket, Range range) {
    EXPECT_EQ(range, kBuckets[bucket]);
    called.insert(bucket);
  });
  EXPECT_EQ(buckets.buckets(), kBuckets);
  for (int step = 0; step < 50; ++step) {
    for (const Range& part : Ranges{{0, 4}, {4, 6}, {16, 20}, {36, 17}, {64, 50}, {114, 50}}) {
      buckets.ready(part, writer);
      buckets.advance();
    }
    buckets.finish();
    EXPECT_EQ(called, (std::multiset<int>{0, 1, 2, 3, 4}));
    called.clear();
    reducer.next_step();
  }
  EXPECT_EQ(reducer.starts, 250);
}

TEST_P(EveryPolicy, StartsABucketWhenItsLastElementIsWritten) {
  FakeReducer reducer(kBuckets.size());
  GradientBuckets buckets(reducer, kBuckets, GetParam(), [](int, Range) {});
  const auto expect_starts = [&](int count) {
    // Unless the other thread holds the mutex, which then starts it.
    while (GetParam() == Policy::thread && reducer.starts < count) std::this_thread::yield();
    EXPECT_EQ(reducer.starts, count);
  };
  buckets.ready({0, 47}, writer);
  for (int i = 0; i < 100; ++i) buckets.advance();
  expect_starts(1);
  buckets.ready({47, 1}, writer);
  expect_starts(2);
  buckets.ready({48, 116}, writer);
  expect_starts(5);
  buckets.finish();
  const bool alone = reducer.callers == std::set{reducer.compute};
  EXPECT_TRUE(alone || GetParam() == Policy::thread) << "another thread ran";
}

TEST_P(EveryPolicy, RethrowsWhatTheCallbackThrows) {
  FakeReducer reducer(kBuckets.size());
  GradientBuckets buckets(reducer, kBuckets, GetParam(),
                          [](int, Range) { fail("the update went wrong"); });
  EXPECT_THROW(
      {
        buckets.ready({0, 164}, writer);
        buckets.finish();
      },
      Error);
}

TEST_P(EveryPolicy, RefusesRangesOutOfOrderAndAnIncompleteStep) {
  FakeReducer reducer(kBuckets.size());
  GradientBuckets buckets(reducer, kBuckets, GetParam(), [](int, Range) {});
  const auto expect_refused = [](const char* call, const std::function<void()>& body) {
    expect_error({call}, body);
  };
  expect_refused("GradientBuckets::finish()", [&] { buckets.finish(); });
  buckets.ready({0, 48}, writer);
  expect_refused("GradientBuckets::ready()", [&] { buckets.ready({0, 48}, writer); });
  expect_refused("GradientBuckets::ready()", [&] { buckets.ready({100, 10}, writer); });
  expect_refused("GradientBuckets::finish()", [&] { buckets.finish(); });
}

TEST_P(EveryPolicy, DoesNotCountCallbacksAsExposed) {
  using Clock = std::chrono::steady_clock;
  FakeReducer reducer(kBuckets.size());
  std::chrono::duration<double> in_callbacks{};
  GradientBuckets buckets(reducer, kBuckets, GetParam(), [&](int, Range) {
    const auto began = Clock::now();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    in_callbacks += Clock::now() - began;
  });
  const auto began = Clock::now();
  buckets.ready({0, 164}, writer);
  buckets.finish();
  const std::chrono::duration<double> wall = Clock::now() - began;
  EXPECT_GE(buckets.exposed_seconds(), 0);
  // On any machine, because callbacks are not part of it.
  EXPECT_LE(buckets.exposed_seconds(), (wall - in_callbacks).count());
}

TEST_P(EveryPolicy, CanBeDestroyedInTheMiddleOfAStep) {
  for (int i = 0; i < 500; ++i) {
    FakeReducer reducer(kBuckets.size());
    GradientBuckets buckets(reducer, kBuckets, GetParam(), [](int, Range) {});
    buckets.ready({0, 48}, writer);
  }
}

std::string name_of(const testing::TestParamInfo<Policy>& info) {
  const char* names[] = {"wait", "poll", "thread"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, testing::ValuesIn(kAllPolicies), name_of);

TEST(Policy, WaitLeavesTheReducerAloneUntilFinishAndPollDoesNot) {
  for (const Policy policy : {Policy::wait, Policy::poll}) {
    FakeReducer reducer(kBuckets.size());
    int called = 0;
    GradientBuckets buckets(reducer, kBuckets, policy, [&](int, Range) { ++called; });
    buckets.ready({0, 164}, writer);
    for (int i = 0; i < 5; ++i) buckets.advance();
    EXPECT_EQ(reducer.advances, policy == Policy::wait ? 0 : 5);
    EXPECT_EQ(called, policy == Policy::wait ? 0 : 5);
    buckets.finish();
    EXPECT_EQ(called, 5);
  }
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(Policy, ThreadCompletesBucketsWhileTheComputeThreadComputes) {
  FakeReducer reducer(kBuckets.size());
  std::atomic<int> called = 0;
  GradientBuckets buckets(reducer, kBuckets, Policy::thread, [&](int, Range) { ++called; });
  for (int step = 0; step < 200; ++step) {
    if (step % 40 == 0) sleep_ms(5);  // it has gone to sleep
    called = 0;
    buckets.ready({0, 164}, writer);
    while (called < 5) std::this_thread::yield();  // ctest ends a test that hangs
    buckets.finish();
    EXPECT_EQ(called, 5);
    reducer.next_step();
  }
}

TEST(Policy, ThreadDoesNotBlockOthersWhileItRunsACallback) {
  FakeReducer reducer(kBuckets.size());
  std::atomic<bool> entered = false, released = false;
  GradientBuckets buckets(reducer, kBuckets, Policy::thread, [&](int, Range) {
    entered = true;
    while (!released) std::this_thread::yield();
  });
  buckets.ready({0, 10}, writer);
  while (!entered) std::this_thread::yield();
  buckets.ready({16, 32}, writer);
  buckets.advance();
  EXPECT_EQ(reducer.starts, 1) << "nothing happens beside a callback";
  released = true;
  while (reducer.starts < 2) std::this_thread::yield();
  buckets.ready({48, 116}, writer);
  buckets.finish();
  EXPECT_EQ(reducer.starts, 5);
}

TEST(Policy, ThreadLetsTheComputeThreadStartAndMoveOnToo) {
  FakeReducer reducer(kBuckets.size());
  GradientBuckets buckets(reducer, kBuckets, Policy::thread, [](int, Range) {});
  bool started = false;
  // If the other thread is not inside: hardly ever more than once.
  for (int step = 0; step < 1000; ++step) {
    const int before = reducer.own_starts;
    buckets.ready({0, 164}, writer);
    started |= reducer.own_starts > before;
    if (started && reducer.own_advances > 0) break;
    buckets.advance();
    buckets.finish();
    reducer.next_step();
  }
  EXPECT_TRUE(started);
  EXPECT_GT(reducer.own_advances, 0);
}

TEST(Policy, ThreadSleepsWithoutWork) {
  const auto sleeps = [] {
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    return used.ru_nvcsw;
  };
  FakeReducer reducer(kBuckets.size());
  std::atomic<int> called = 0;
  GradientBuckets buckets(reducer, kBuckets, Policy::thread, [&](int, Range) { ++called; });
  buckets.ready({0, 10}, writer);
  while (called < 1) std::this_thread::yield();
  sleep_ms(2);
  const auto before = sleeps();
  sleep_ms(100);
  EXPECT_EQ(reducer.advances, 1) << "it looked again after the only bucket was complete";
  EXPECT_LT(sleeps() - before, 200) << "it woke up too often";
}

TEST(Policy, ThreadNapsBetweenLooks) {
  FakeReducer reducer(kBuckets.size());
  reducer.silent = true;
  GradientBuckets buckets(reducer, kBuckets, Policy::thread, [](int, Range) {});
  const auto began = std::chrono::steady_clock::now();
  buckets.ready({0, 10}, writer);
  sleep_ms(50);
  const std::chrono::duration<double, std::micro> waited = std::chrono::steady_clock::now() - began;
  EXPECT_LT(reducer.advances, waited.count() / 50 + 10);
  while (reducer.advances < 3) std::this_thread::yield();
}

/// Repeats the call until it throws, because a call while the other thread works does nothing.
/// (ctest ends a test that hangs.)
void advance_for_ever(GradientBuckets& buckets) {
  for (;;) {
    buckets.advance();
    std::this_thread::yield();
  }
}

TEST(Policy, EveryCallRethrowsTheErrorOfTheThread) {
  struct Case {
    Ranges buckets;
    std::function<void(GradientBuckets&)> call;
  };
  const Case cases[] = {{{{0, 10}, {16, 10}},
                         [](auto& buckets) {
                           buckets.ready({16, 10}, writer);
                         }},
                        {{{0, 10}}, [](auto& buckets) { buckets.advance(); }},
                        {{{0, 10}}, [](auto& buckets) { buckets.finish(); }}};
  for (const auto& [all, call] : cases) {
    FakeReducer reducer(all.size());
    reducer.silent = true;
    GradientBuckets buckets(reducer, all, Policy::thread, [](int, Range) {});
    buckets.ready({0, 10}, writer);
    reducer.fail_elsewhere = true;
    EXPECT_THROW(advance_for_ever(buckets), Error);
    EXPECT_THROW(call(buckets), Error);
  }
}

TEST(Policy, ThreadStopsAfterAnErrorOfTheComputeThread) {
  for (const char* place : {"start", "advance", "callback"}) {
    FakeReducer reducer(kBuckets.size());
    std::atomic<int> called = 0;
    bool thrown = false;
    GradientBuckets buckets(reducer, kBuckets, Policy::thread, [&](int, Range) {
      ++called;
      if (place == std::string("callback")) fail("the update went wrong");
    });
    reducer.silent = place == std::string("start");
    buckets.ready({0, 10}, writer);
    reducer.fail_in_start = place == std::string("start");
    reducer.fail_in_advance = place == std::string("advance");
    try {
      buckets.ready({16, 32}, writer);
      buckets.advance();
      buckets.ready({48, 116}, writer);
      buckets.finish();
    } catch (const Error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown) << place;
    sleep_ms(5);
    const int advances = reducer.advances, callbacks = called;
    reducer.fail_in_start = reducer.fail_in_advance = reducer.silent = false;
    sleep_ms(20);
    EXPECT_EQ(reducer.advances, advances) << place;
    EXPECT_EQ(called, callbacks) << place;
    EXPECT_THROW(advance_for_ever(buckets), Error) << place;
  }
}

TEST(ChoosePolicy, ByNameAndByWhatMpiAllows) {
  FakeReducer reducer(1);
  EXPECT_EQ(choose_policy("wait", reducer, false), Policy::wait);
  EXPECT_EQ(choose_policy("poll", reducer, false), Policy::poll);
  EXPECT_EQ(choose_policy("thread", reducer, true), Policy::thread);
  EXPECT_EQ(choose_policy("auto", reducer, true), Policy::thread);
  EXPECT_EQ(choose_policy("auto", reducer, false), Policy::poll);
  EXPECT_THROW(choose_policy("thread", reducer, false), Error);
  EXPECT_THROW(choose_policy("tread", reducer, true), Error);
  reducer.traits_.calls_mpi = false;
  EXPECT_EQ(choose_policy("auto", reducer, true), Policy::poll);
  EXPECT_EQ(choose_policy("thread", reducer, false), Policy::thread);
  EXPECT_THROW(choose_policy("stream", reducer, true), Error);
  reducer.traits_.in_stream = true;
  EXPECT_EQ(choose_policy("auto", reducer, true), Policy::stream);
  EXPECT_EQ(choose_policy("stream", reducer, false), Policy::stream);
  for (const char* other : {"wait", "poll", "thread"})
    EXPECT_THROW(choose_policy(other, reducer, true), Error) << other;
}

TEST(Policy, StreamCompletesABucketWhenItStarts) {
  FakeReducer reducer(kBuckets.size());
  reducer.traits_.in_stream = true;
  std::vector<int> called;
  GradientBuckets buckets(reducer, kBuckets, Policy::stream,
                          [&](int bucket, Range) { called.push_back(bucket); });
  buckets.ready({0, 48}, writer);
  EXPECT_EQ(called, (std::vector<int>{0, 1}));
  buckets.advance();
  buckets.ready({48, 116}, writer);
  buckets.finish();
  EXPECT_EQ(called, (std::vector<int>{0, 1, 2, 3, 4}));
  EXPECT_EQ(reducer.advances, 0);
}

TEST(BucketBytes, BytesTakeTenTimesAsLongAsLatencies) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40, kMiB = 1 << 20;
  const Link slow{50e-6, 0.117e9, 1e10}, fast{10e-6, 12.5e9, 1e10};
  EXPECT_EQ(bucket_bytes(2, fast, kHuge), 2 * kMiB) << "of 2.5 million";
  EXPECT_EQ(bucket_bytes(1024, fast, kHuge), 8 * kMiB) << "of 12.5 million";
  EXPECT_EQ(bucket_bytes(2, {1, 1e12, 1e10}, kHuge), 16 * kMiB);
  EXPECT_EQ(bucket_bytes(16, slow, kHuge), kMiB) << "249600 bytes are too few for a message";
  EXPECT_EQ(bucket_bytes(2, {1e-9, 1e3, 1e10}, kHuge), kMiB);
  EXPECT_EQ(bucket_bytes(1024, fast, 5 * kMiB), kMiB) << "a quarter, or less";
  EXPECT_EQ(bucket_bytes(1024, fast, 2 * kMiB), kMiB / 2);
  EXPECT_EQ(bucket_bytes(16, slow, 2 * kMiB), kMiB / 2) << "a quarter is the limit here too";
  EXPECT_EQ(bucket_bytes(1024, fast, 1000), 64 << 10);
  EXPECT_EQ(device_bucket_bytes(1000), kMiB);
  EXPECT_EQ(device_bucket_bytes(8 << 20), 4 * kMiB);
  EXPECT_EQ(device_bucket_bytes(kHuge), 8 * kMiB);
}

}  // namespace
}  // namespace lockstep
