// Idle threads of a team sleep while other threads want their cores.
#include "src/cpu/spin_control.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "src/clock.h"

namespace lockstep {
namespace {

/// Looks until the judge answers `contended`, at most `most`.
int looks_until(ContentionJudge& judge, bool contended, double share, int most = 1000) {
  for (int look = 1; look <= most; ++look) {
    if (judge.look(share) == contended) return look;
  }
  return 0;
}

TEST(ContentionJudge, BeginsAfterTwoLongDelaysInARow) {
  ContentionJudge judge;
  EXPECT_EQ(looks_until(judge, true, 0.3), 2);
  ContentionJudge calm;
  EXPECT_EQ(looks_until(calm, true, 0.19), 0);
}

TEST(ContentionJudge, OneLongDelayIsNotContention) {
  ContentionJudge judge;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(judge.look(0.9));
    EXPECT_FALSE(judge.look(0.01));
  }
}

TEST(ContentionJudge, EndsAfterASecondWithoutLongDelays) {
  ContentionJudge judge;
  ASSERT_EQ(looks_until(judge, true, 0.3), 2);
  EXPECT_EQ(looks_until(judge, false, 0.16), 0);
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(judge.look(0.1));
  EXPECT_TRUE(judge.look(0.3)) << "the second begins again";
  EXPECT_EQ(looks_until(judge, false, 0.1) * ContentionJudge::kWindow, 1);
  EXPECT_EQ(looks_until(judge, true, 0.3), 2);
}

/// Threads of this process with the name of SpinControl's own thread, which its team inherits.
int control_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    count += name == "spin control";
  }
  return count;
}

class SpinControlTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    if (!std::filesystem::exists("/proc/self/schedstat")) GTEST_SKIP() << "no schedstat";
    omp_set_dynamic(0);
#pragma omp parallel num_threads(2)
    ids_[omp_get_thread_num()] = gettid();
  }
  std::vector<int> ids_ = std::vector<int>(2);
};

TEST_F(SpinControlTest, KeepsASecondTeamWhileOthersWantTheCores) {
  SpinControl control(ids_);
  std::atomic<bool> stop = false;
  std::vector<std::jthread> others;
  for (int i = 0; i < 2 * omp_get_num_procs(); ++i) {
    others.emplace_back([&stop] {
      while (!stop) {
      }
    });
  }
  const double begin = now_seconds();
  std::atomic<int> work = 0;
  while (!control.sleeps() && now_seconds() - begin < 60) {
#pragma omp parallel num_threads(2)
    for (int i = 0; i < 100000; ++i) work.fetch_add(1, std::memory_order_relaxed);
  }
  EXPECT_TRUE(control.sleeps());
  // More OpenMP threads than cores in all: the team of this test has two.
  while (control_threads() < omp_get_num_procs() && now_seconds() - begin < 60) usleep(1000);
  EXPECT_EQ(control_threads(), omp_get_num_procs());
  stop = true;
}

TEST_F(SpinControlTest, LeavesNoThreadBehind) {
  { const SpinControl control(ids_); }
  EXPECT_EQ(control_threads(), 0);
}

TEST_F(SpinControlTest, LeavesTheChoiceToTheUser) {
  for (const char* variable : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    setenv(variable, "1000", 1);
    const SpinControl control(ids_);
    EXPECT_EQ(control_threads(), 0) << variable;
    unsetenv(variable);
  }
}

}  // namespace
}  // namespace lockstep
