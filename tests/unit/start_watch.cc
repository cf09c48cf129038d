// The line about a rank that is stopped in MPI_Init. The ranks are processes of this program,
// started like those of a PMIx launcher that neither continues nor kills them.
#include "collectives/watch/start_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "src/base/check.h"
#include "src/base/process.h"
#include "tests/support/error_of.h"

namespace lockstep {
namespace {

void wait_for_ever() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// Not a test: the body of a rank.
TEST(StartWatch, DISABLED_rank) {
  const std::string part = std::getenv("PART");
  if (part == "stops") raise(SIGSTOP);
  if (part == "comes later") std::this_thread::sleep_for(std::chrono::milliseconds(600));
  if (part == "watches" || part == "comes later") {
    const StartWatch watch("test");
    wait_for_ever();
  }
  wait_for_ever();
}

/// The ranks of one job. Their stderr is one pipe.
class Job {
 public:
  Job(const std::string& name, const std::vector<std::string>& parts) {
    EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0);
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const std::string job = "PMIX_NAMESPACE=" + name + std::to_string(getpid());
      const std::string number = "PMIX_RANK=" + std::to_string(rank), part = "PART=" + parts[rank];
      const pid_t pid = fork();
      if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends_[1], STDERR_FILENO);
        const char* argv[] = {"rank", "--gtest_filter=StartWatch.DISABLED_rank",
                              "--gtest_also_run_disabled_tests", "--gtest_brief=1", nullptr};
        const char* environment[] = {job.c_str(), number.c_str(), part.c_str(), nullptr};
        execve("/proc/self/exe", const_cast<char**>(argv), const_cast<char**>(environment));
        _exit(127);
      }
      pids_.push_back(pid);
    }
    close(ends_[1]);
  }

  /// The output until rank `last` has ended with exit code kExitHang.
  std::string words(int last) {
    const pid_t pid = pids_[last];
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kExitHang) << status;
    for (const pid_t each : pids_) kill(each, SIGKILL);
    for (const pid_t each : pids_) waitpid(each, nullptr, 0);
    std::string text;
    char buffer[4096];
    for (ssize_t length; (length = read(ends_[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, length);
    close(ends_[0]);
    return text;
  }
  void signal(int number) const {
    for (const pid_t each : pids_) kill(each, number);
  }
  void signal(std::size_t rank, int number) const { kill(pids_[rank], number); }
  bool all_run() const {
    return std::all_of(pids_.begin(), pids_.end(),
                       [](pid_t each) { return waitpid(each, nullptr, WNOHANG) == 0; });
  }
  std::string line(int stopped) const {
    return "\ntest: rank " + std::to_string(stopped) + " (pid " + std::to_string(pids_[stopped]) +
           ", ";
  }

 private:
  int ends_[2];
  std::vector<pid_t> pids_;
};

// The jobs run side by side, because each takes seconds.
TEST(StartWatch, OneRankNamesTheStoppedOneAndIgnoresAShortStopAndASuspendedJob) {
  Job gone("gone", {"watches", "stops", "comes later"});
  Job mute("mute", {"does nothing", "watches", "stops"});  // the first rank prints nothing
  const Job patient("patient", {"watches", "watches"});
  const auto wait = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  wait(1300);  // they look
  patient.signal(0, SIGSTOP);
  wait(600);
  patient.signal(0, SIGCONT);
  wait(400);
  patient.signal(SIGSTOP);
  wait(3000);
  patient.signal(SIGCONT);
  wait(600);
  EXPECT_TRUE(patient.all_run());
  patient.signal(SIGKILL);
  const std::string of_gone = gone.words(2);
  EXPECT_TRUE(mentions(of_gone, {gone.line(1)}));
  EXPECT_EQ(std::count(of_gone.begin(), of_gone.end(), '\n'), 2) << of_gone;
  const std::string of_mute = mute.words(1);
  EXPECT_TRUE(mentions(of_mute, {mute.line(2)}));
}

}  // namespace
}  // namespace lockstep
