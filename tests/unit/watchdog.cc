// The watchdog ends a group of processes when one of them dies or falls silent, with one message
// from one of them. The ranks are forked here and share their records without MPI.
#include "collectives/watchdog.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "src/check.h"

namespace lockstep {
namespace {

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

[[noreturn]] void wait_for_ever() {
  for (;;) sleep_for(0.1);
}

/// Marks progress, as a rank at work does, for so long.
void work(Records& records, double seconds) {
  for (double spent = 0; spent < seconds; spent += 0.05) {
    records.mine().progress();
    sleep_for(0.05);
  }
}

/// How a group ended.
struct Outcome {
  std::string text;       ///< what all of them printed on stderr
  std::vector<int> exit;  ///< by rank; minus the signal if one ended it

  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  auto lines() const { return std::count(text.begin(), text.end(), '\n'); }
};

/// Forks `size` processes that run body(records) and then leave with exit code 0.
Outcome run_group(int size, const std::function<void(Records&)>& body) {
  constexpr std::size_t kEntered = 64;
  auto* memory =
      static_cast<std::byte*>(mmap(nullptr, kEntered + Records::bytes(size), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  auto& entered = *reinterpret_cast<std::atomic<int>*>(memory);
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    Records records(memory + kEntered, rank, size, rank);
    // As World does it with a barrier: nobody looks at records that are not there yet.
    for (++entered; entered < size;) sleep_for(0.001);
    body(records);
    _exit(0);
  }
  close(ends[1]);
  Outcome outcome;
  char buffer[4096];
  for (ssize_t length; (length = read(ends[0], buffer, sizeof buffer)) > 0;) {
    outcome.text.append(buffer, static_cast<std::size_t>(length));
  }
  close(ends[0]);
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    outcome.exit.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
  }
  munmap(memory, kEntered + Records::bytes(size));
  return outcome;
}

TEST(Watchdog, a_killed_rank_is_named_once_and_all_end) {
  const Outcome outcome = run_group(3, [](Records& records) {
    const Watchdog watchdog(records, 60, true);
    records.mine().step(12);
    records.mine().phase("bucket 2 of the reducer tree");
    if (records.index() == 1) {
      sleep_for(0.5);
      kill(getpid(), SIGKILL);
    }
    wait_for_ever();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{kExitFailure, -SIGKILL, kExitFailure}));
  EXPECT_EQ(outcome.lines(), 1) << outcome.text;
  EXPECT_EQ(outcome.text.find("rank 1 (pid "), 0u) << outcome.text;
  EXPECT_TRUE(outcome.has("died at step 12 during bucket 2 of the reducer tree")) << outcome.text;
}

TEST(Watchdog, a_rank_that_crashes_before_the_first_step_is_named_too) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 60, true);
    if (records.index() == 0) _exit(3);
    wait_for_ever();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{3, kExitFailure}));
  EXPECT_EQ(outcome.lines(), 1) << outcome.text;
  EXPECT_TRUE(outcome.has("rank 0 (pid ") && outcome.has("before the first step during start-up"))
      << outcome.text;
}

TEST(Watchdog, a_silent_rank_is_named_though_all_are_silent_by_then) {
  const Outcome outcome = run_group(3, [](Records& records) {
    const Watchdog watchdog(records, 1, true);
    records.mine().step(7);
    if (records.index() == 2) {
      records.mine().phase("loading");
      wait_for_ever();
    }
    work(records, 0.5);
    records.mine().phase("bucket 0 of the reducer shared");
    wait_for_ever();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{kExitFailure, kExitFailure, kExitFailure}));
  EXPECT_TRUE(outcome.has("no progress for 1 s: rank 2 (pid ")) << outcome.text;
  EXPECT_TRUE(outcome.has("is behind, at step 7 during loading")) << outcome.text;
  EXPECT_EQ(outcome.lines(), 5) << "one line, a heading, three ranks\n" << outcome.text;
}

TEST(Watchdog, a_rank_that_waits_for_others_is_not_behind_one_that_does_not) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 1, true);
    records.mine().step(7);
    if (records.index() == 0) {
      records.mine().waiting("bucket 0 of the reducer shared");
      wait_for_ever();
    }
    work(records, 0.5);
    records.mine().phase("backward");
    wait_for_ever();
  });
  EXPECT_TRUE(outcome.has("rank 1 (pid ") && outcome.has("is behind, at step 7 during backward"))
      << outcome.text;
}

TEST(Watchdog, a_stopped_rank_is_to_blame_whoever_waits) {
  const Outcome outcome = run_group(3, [](Records& records) {
    const Watchdog watchdog(records, 1, false);
    records.mine().step(records.index() == 1 ? 8 : 7);
    records.mine().waiting("bucket 0 of the reducer tree");
    if (records.index() == 1) kill(getpid(), SIGSTOP);
    work(records, 0.5);
    if (records.index() == 0) {
      while (!records.failing()) sleep_for(0.01);
      kill(records[1].read().pid, SIGKILL);  // as mpirun does
    }
    wait_for_ever();
  });
  EXPECT_TRUE(outcome.has("no progress for 1 s: rank 1 (pid ")) << outcome.text;
  EXPECT_TRUE(outcome.has("is stopped, by a signal or a debugger, at step 8 during bucket 0"))
      << outcome.text;
}

TEST(Watchdog, where_all_wait_the_ranks_of_other_nodes_get_longer_if_there_are_some) {
  for (const bool alone : {true, false}) {
    const Outcome outcome = run_group(2, [&](Records& records) {
      const Watchdog watchdog(records, 1, alone);
      records.mine().step(7);
      records.mine().waiting("bucket 0 of the reducer tree");
      if (alone) wait_for_ever();
      sleep_for(2.5);
    });
    EXPECT_EQ(outcome.has("no progress for 1 s: all ranks on host "), alone) << outcome.text;
    const int all = alone ? kExitFailure : kExitSuccess;
    EXPECT_EQ(outcome.exit, (std::vector<int>{all, all}));
  }
}

TEST(Watchdog, a_rank_of_a_lower_step_is_behind_even_if_it_moved_last) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 1, true);
    records.mine().step(records.index() == 0 ? 5 : 4);
    if (records.index() == 1) work(records, 1.5);
    wait_for_ever();
  });
  EXPECT_TRUE(outcome.has("rank 1 (pid ") && outcome.has("is behind, at step 4")) << outcome.text;
}

TEST(Watchdog, lets_the_others_wait_for_a_rank_with_a_longer_limit) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 1, true);
    records.mine().step(1);
    if (records.index() == 0)
      records.mine().phase("checkpoint", 30);
    else
      records.mine().step(2);
    sleep_for(2.5);
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{0, 0}));
  EXPECT_EQ(outcome.text, "");
}

TEST(Watchdog, is_quiet_while_ranks_work_and_when_they_leave_one_after_another) {
  const Outcome outcome = run_group(3, [](Records& records) {
    {
      const Watchdog watchdog(records, 1, true);
      work(records, 1.5);
    }
    if (records.index() > 0) sleep_for(1.5);
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(outcome.text, "");
}

TEST(Watchdog, without_a_timeout_silence_is_no_failure) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 0, true);
    sleep_for(1.5);
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{0, 0}));
  EXPECT_EQ(outcome.text, "");
}

TEST(Watchdog, leaves_the_word_to_a_rank_that_explains_and_does_not_wait_for_ever) {
  const Outcome outcome = run_group(2, [](Records& records) {
    const Watchdog watchdog(records, 1, true);
    if (records.index() == 0) {
      EXPECT_TRUE(records.first_failure());  // and then hangs in the attempt to end the run
    }
    wait_for_ever();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{kExitFailure, kExitFailure}));
  EXPECT_EQ(outcome.text, "");
}

}  // namespace
}  // namespace lockstep
