#include "apps/tell/live_page.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>

#include "src/base/check.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

void await(const std::function<bool()>& what) {
  while (!what()) std::this_thread::sleep_for(milliseconds(10));
}

TEST(LivePage, IsWrittenAgainAndAgain) {
  std::atomic<int> calls = 0;
  std::atomic<double> next = 0;
  std::optional<LivePage> page(std::in_place, [&](double seconds) {
    next = seconds;
    ++calls;
  });
  await([&] { return calls == 2; });
  EXPECT_EQ(next, 10);
  page.reset();  // at once, not at the next call
  EXPECT_EQ(calls, 2);
}

TEST(LivePage, TakesAHundredthOfTheTime) {
  std::atomic<int> calls = 0;
  const LivePage page([&](double) {
    ++calls;
    std::this_thread::sleep_for(milliseconds(500));
  });
  await([&] { return calls > 0; });
  std::this_thread::sleep_for(std::chrono::seconds(3));
  EXPECT_EQ(calls, 1) << "the next one follows after 50 s";
}

TEST(LivePage, TellsEachFailureOnce) {
  std::atomic<int> calls = 0;
  LivePage page([&](double) {
    if (++calls == 1) throw Error("the disk is full");
  });
  page.rethrow();
  bool failed = false;
  await([&] {
    try {
      page.rethrow();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "the disk is full");
      failed = true;
    }
    return failed;
  });
  page.rethrow();
  await([&] { return calls == 2; });
  page.rethrow();
}

}  // namespace
}  // namespace lockstep
