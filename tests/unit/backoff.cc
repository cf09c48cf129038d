// A polling thread leaves its core to others that want it, and tries again later.
#include "collectives/node/backoff.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "src/base/clock.h"

namespace lockstep {
namespace {

/// CoreContention and a thread that polls for a millisecond at a time.
struct Looking {
  CoreContention judge;
  CoreContention::Reading at{100, 7, 3};
  Looking() { judge.begin(at); }
  /// Milliseconds until the core counts as shared; 0: not within `most`.
  int verdict(double share, bool leaves, int most = 1000) {
    for (int ms = 1; ms <= most; ++ms) {
      at.now += 1e-3;
      at.worked += share * 1e-3;
      at.left += leaves;
      if (judge.shared(at)) return ms;
    }
    return 0;
  }
};

TEST(CoreContention, NeedsTwoSpansWithASharedCore) {
  EXPECT_EQ(Looking().verdict(0.5, true), 10);
  EXPECT_EQ(Looking().verdict(0.69, true), 10);
  EXPECT_EQ(Looking().verdict(0.71, true), 0);
  EXPECT_EQ(Looking().verdict(1, true), 0);
  Looking again;
  EXPECT_EQ(again.verdict(0.5, true), 10);
  EXPECT_EQ(again.verdict(0.5, true), 10) << "judged anew";
}

TEST(CoreContention, IgnoresTimeOfInterrupts) {
  // Interrupts, and a hypervisor.
  EXPECT_EQ(Looking().verdict(0.2, false), 0);
}

TEST(CoreContention, IgnoresASingleBadSpan) {
  // A daemon that wakes up; a process that was stopped.
  Looking looking;
  EXPECT_EQ(looking.verdict(0.1, true, 5), 0);
  EXPECT_EQ(looking.verdict(1, true, 5), 0);
  looking.at.now += 3600;
  EXPECT_EQ(looking.verdict(1, true, 100), 0);
}

TEST(CoreContention, IgnoresTheTimeBetweenTwoWaits) {
  Looking looking;
  for (int wait = 0; wait < 100; ++wait) {
    EXPECT_EQ(looking.verdict(1, true, 3), 0);
    looking.at.now += 1;  // asleep
    looking.judge.begin(looking.at);
  }
}

/// Binds the calling thread and all that it starts to one core. Returns whether it succeeded.
bool stay_here() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  return pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
}

TEST(Backoff, NapsIfTheCoreIsSharedAndTriesAgain) {
  bool stays = false;
  std::thread([&] {  // whose affinity goes with it
    if (stays = stay_here(); !stays) return;
    std::atomic<bool> stop = false;
    std::thread other([&] {
      while (!stop) continue;
    });
    Backoff backoff;
    EXPECT_FALSE(backoff.naps());
    for (const double end = now_seconds() + 60; !backoff.naps() && now_seconds() < end;)
      backoff.between();
    EXPECT_TRUE(backoff.naps());
    const double began = now_seconds();
    for (int looks = 0; looks < 10; ++looks) backoff.between();
    EXPECT_GE(now_seconds() - began, 10 * 50e-6);
    stop = true;
    other.join();
    for (const double end = now_seconds() + 60; backoff.naps() && now_seconds() < end;)
      backoff.between();
    EXPECT_FALSE(backoff.naps());
  })
      .join();
  if (!stays) GTEST_SKIP() << "skipped: no thread may choose its core here";
}

}  // namespace
}  // namespace lockstep
