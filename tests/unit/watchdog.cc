// The watchdog ends a group of processes with one message when one of them dies, is stopped or is
// silent. The ranks are forked here and share their records without MPI. For the rank that is
// blamed see tests/unit/hang_detector.cc, and for runs tests/apps/killed_rank.sh.
#include "collectives/watch/watchdog.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

/// Ten times as fast as in a run.
constexpr Watchdog::Pace kPace = {.look = 0.01, .stopped = 0.2, .grace = 0.5};
constexpr int kDeadline = 60;  ///< seconds after which a group that hangs is killed

void sleep_for(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

[[noreturn]] void wait_for_ever() {
  for (;;) sleep_for(0.1);
}

/// What the processes of a group share besides their records.
struct Shared {
  alignas(64) std::atomic<int> entered, left;
  std::atomic<bool> keep_going;
};

/// The end of a group.
struct Outcome {
  std::string text;       ///< stderr of all processes
  std::vector<int> exit;  ///< by rank: exit code, or minus the signal

  bool has(const std::string& part) const { return text.find(part) != std::string::npos; }
  auto lines() const { return std::count(text.begin(), text.end(), '\n'); }
};

/// Forked processes with a watchdog each. The destructor kills those that are left.
class Group {
 public:
  using Body = std::function<void(FlightRecorder&, Watchdog&, Shared&)>;

  /// Starts `size` processes that call body() and then leave with exit code 0. `read`: reads their
  /// stderr; else it is a full pipe. `first`: the lowest rank.
  Group(int size, const Body& body, bool read = true, int first = 0)
      : size_(size),
        memory_(static_cast<std::byte*>(
            mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    EXPECT_EQ(pipe(ends_), 0);
    if (!read) fill(ends_[1]);
    for (int rank = 0; rank < size; ++rank) {
      children_.push_back(fork());
      if (children_.back() != 0) continue;
      setpgid(0, rank == 0 ? 0 : children_.front());
      alarm(2 * kDeadline);  // in case the parent dies
      dup2(ends_[1], STDERR_FILENO);
      close(ends_[0]);
      close(ends_[1]);
      FlightRecorder records(memory_ + sizeof(Shared), rank, size, first + rank);
      // Like World's barrier: no rank reads records before all have entered.
      for (++shared().entered; shared().entered < size;) sleep_for(0.001);
      {
        Watchdog watchdog(records, true, "test", kPace);
        body(records, watchdog, shared());
      }
      _exit(0);
    }
    for (const pid_t child : children_) setpgid(child, children_.front());
    close(ends_[1]);
  }
  ~Group() { munmap(memory_, bytes()); }

  Shared& shared() { return *reinterpret_cast<Shared*>(memory_); }
  /// Sends a signal to all processes with one system call.
  void send(int signal) const { kill(-children_.front(), signal); }

  Outcome collect() {
    std::jthread deadline([this](const std::stop_token& stop) {
      for (int i = 0; i < 10 * kDeadline && !stop.stop_requested(); ++i) sleep_for(0.1);
      if (!stop.stop_requested()) send(SIGKILL);
    });
    Outcome outcome;
    char buffer[4096];
    std::map<pid_t, int> exits;
    while (exits.size() < children_.size()) {
      int status = 0;
      const pid_t ended = waitpid(-children_.front(), &status, 0);
      exits[ended] = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
      if (exits[ended] == 0) continue;
      // As a launcher does. Running processes have to end by themselves.
      for (const pid_t child : children_) {
        if (!exits.count(child) && Process(child, 0).condition() == Condition::stopped)
          kill(child, SIGKILL);
      }
    }
    for (const pid_t child : children_) outcome.exit.push_back(exits[child]);
    fcntl(ends_[0], F_SETFL, O_NONBLOCK);
    for (ssize_t length; (length = ::read(ends_[0], buffer, sizeof buffer)) > 0;) {
      outcome.text.append(buffer, length);
    }
    close(ends_[0]);
    return outcome;
  }

 private:
  std::size_t bytes() const { return sizeof(Shared) + FlightRecorder::bytes(size_); }
  static void fill(int end) {
    fcntl(end, F_SETFL, O_NONBLOCK);
    while (::write(end, "x", 1) == 1) {
    }
    fcntl(end, F_SETFL, 0);
  }

  int size_;
  std::byte* memory_;
  int ends_[2];
  std::vector<pid_t> children_;
};

Outcome run_group(int size, const Group::Body& body) { return Group(size, body).collect(); }

std::vector<int> sorted(std::vector<int> codes) {
  std::ranges::sort(codes);
  return codes;
}

TEST(Watchdog, TwoDeathsAtOnceAreFoundEvenIfOneWatchedTheOther) {
  const Outcome outcome = run_group(4, [](FlightRecorder& records, Watchdog&, Shared&) {
    if (records.index() == 1 || records.index() == 2) kill(getpid(), SIGKILL);
    wait_for_ever();
  });
  EXPECT_EQ(sorted(outcome.exit), (std::vector<int>{-SIGKILL, -SIGKILL, kExitFailure, kExitLost}))
      << "the rank that prints has the code of the cause";
  EXPECT_EQ(outcome.lines(), 1) << outcome.text;
}

TEST(Watchdog, ASilentRankIsNamedWithATableOfAll) {
  const Outcome outcome =
      run_group(3, [](FlightRecorder& records, Watchdog& watchdog, Shared& shared) {
        records.mine().step(7);
        records.mine().phase(records.index() == 2 ? "loading" : "backward");
        for (++shared.entered; shared.entered < 6;) sleep_for(0.001);
        if (records.index() != 2) records.mine().waiting("bucket 0 of the reducer shared");
        for (++shared.entered; shared.entered < 9;) sleep_for(0.001);
        watchdog.set_timeout(0.3);
        wait_for_ever();
      });
  EXPECT_EQ(sorted(outcome.exit), (std::vector<int>{kExitFailure, kExitFailure, kExitHang}));
  EXPECT_TRUE(mentions(outcome.text, {"test:", "0.3 s", "rank 2"}));
  EXPECT_TRUE(outcome.has("step 7") && outcome.has("loading")) << outcome.text;
  EXPECT_EQ(outcome.lines(), 5) << "one line, a heading, three ranks\n" << outcome.text;
}

TEST(Watchdog, IsQuietWhenRanksLeaveOneAfterAnother) {
  const Outcome outcome = run_group(3, [](FlightRecorder& records, Watchdog&, Shared& shared) {
    while (shared.left < records.index()) sleep_for(0.01);
    sleep_for(0.1);
    ++shared.left;
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(outcome.text, "");
}

TEST(Watchdog, IgnoresARankThatIsKilledAfterAnotherHasLeft) {
  Group group(3, [](FlightRecorder& records, Watchdog&, Shared& shared) {
    if (records.index() == 1) return;  // leaves; then a launcher kills slow ranks
    while (!records.anyone_has_left()) sleep_for(0.001);
    if (records.index() == 2) raise(SIGKILL);
    while (!records[2].read().has_left) sleep_for(0.001);  // rank 1's neighbour, and ours now
    ++shared.left;
  });
  const Outcome outcome = group.collect();
  EXPECT_EQ(outcome.text, "");
  EXPECT_EQ(outcome.exit, (std::vector{0, 0, -SIGKILL}));
}

TEST(Watchdog, LetsAnotherRankPrintButDoesNotWaitForEver) {
  const Outcome outcome = run_group(2, [](FlightRecorder& records, Watchdog&, Shared&) {
    if (records.index() == 0) {
      EXPECT_TRUE(records.first_failure());  // then hangs before it ends the run
    }
    wait_for_ever();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{kExitFailure, kExitFailure}));
  EXPECT_EQ(outcome.text, "");
}

TEST(Watchdog, EndsAllEvenIfItsOutputIsNotRead) {
  Group group(
      2,
      [](FlightRecorder& records, Watchdog&, Shared&) {
        if (records.index() == 0) kill(getpid(), SIGKILL);
        wait_for_ever();
      },
      false);
  EXPECT_EQ(group.collect().exit, (std::vector<int>{-SIGKILL, kExitLost}));
}

TEST(Watchdog, DoesNotReportADeathWithoutDescriptors) {
  const Outcome outcome = run_group(2, [](FlightRecorder& records, Watchdog&, Shared&) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    sleep_for(0.3);
    records.mine().goodbye();
  });
  EXPECT_EQ(outcome.exit, (std::vector<int>{0, 0}));
#ifdef __SANITIZE_ADDRESS__
  EXPECT_FALSE(outcome.has("rank ")) << outcome.text;  // it has no descriptors either
#else
  EXPECT_EQ(outcome.text, "");
#endif
}

}  // namespace
TEST(Watchdog, AHostWithoutRank0ReportsAHangLater) {
  const auto hang = [](FlightRecorder& records, Watchdog& watchdog, Shared&) {
    records.mine().phase("loading");
    watchdog.set_timeout(0.1);
    wait_for_ever();
  };
  const double began = now_seconds();
  const Outcome outcome = Group(1, hang, true, 4).collect();
  EXPECT_GE(now_seconds() - began, 2) << "the host of rank 0 reports first";
  EXPECT_TRUE(mentions(outcome.text, {"rank 4", "0.1 s"}));
}

}  // namespace lockstep
