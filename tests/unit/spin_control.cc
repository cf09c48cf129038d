// Idle threads of a team sleep while other threads want their cores.
#include "src/device/cpu/spin_control.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"

namespace lockstep {
namespace {

/// Looks until the judge answers `contended`, at most `most`.
int looks_until(ContentionJudge& judge, bool contended, double share, int most = 1000) {
  for (int look = 1; look <= most; ++look) {
    if (judge.contended(share) == contended) return look;
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
    EXPECT_FALSE(judge.contended(0.9));
    EXPECT_FALSE(judge.contended(0.01));
  }
}

TEST(ContentionJudge, EndsAfterASecondWithoutLongDelays) {
  ContentionJudge judge;
  ASSERT_EQ(looks_until(judge, true, 0.3), 2);
  EXPECT_EQ(looks_until(judge, false, 0.16), 0);
  for (int i = 0; i < 19; ++i) EXPECT_TRUE(judge.contended(0.1));
  EXPECT_TRUE(judge.contended(0.3)) << "the second begins again";
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

/// Programs that want all cores.
class Others {
 public:
  Others() {
    for (int i = 0; i < 2 * omp_get_num_procs(); ++i) {
      threads_.emplace_back([](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
        }
      });
    }
  }

 private:
  std::vector<std::jthread> threads_;
};

/// Works until `control` lets idle threads sleep.
void work_until_it_sleeps(const SpinControl& control) {
  const double begin = now_seconds();
  std::atomic<int> work = 0;
  while (!control.sleeps() && now_seconds() - begin < 60) {
#pragma omp parallel num_threads(2)
    for (int i = 0; i < 100000; ++i) work.fetch_add(1, std::memory_order_relaxed);
  }
  EXPECT_TRUE(control.sleeps());
}

TEST_F(SpinControlTest, KeepsASecondTeamWhileOthersWantTheCores) {
  SpinControl control(ids_);
  const Others others;
  const double begin = now_seconds();
  work_until_it_sleeps(control);
  // More OpenMP threads than cores in all: the team of this test has two.
  while (control_threads() < omp_get_num_procs() && now_seconds() - begin < 60) usleep(1000);
  EXPECT_EQ(control_threads(), omp_get_num_procs());
}

/// libgomp would end the process.
TEST_F(SpinControlTest, NeedsNoThreadThatCannotBeStarted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs memory of its own";
#endif
  const auto run = [&] {
    SpinControl control(ids_);
    const Others others;
    usleep(10000);  // all have their memory
    const rlimit none = {1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &none);
    work_until_it_sleeps(control);
    usleep(200000);
    std::_Exit(HasFailure() ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run(), testing::ExitedWithCode(0), "");
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
