// The state of other processes, and events that must not look like their end.
#include "src/base/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

/// A child that sleeps; the destructor ends it.
class Child {
 public:
  Child() : pid_(fork()) {
    while (pid_ == 0) pause();
  }
  ~Child() { end(); }
  int pid() const { return pid_; }
  void send(int signal) const { kill(pid_, signal); }
  void end() {
    if (pid_ <= 0) return;
    send(SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int pid_;
};

/// Waits for `condition`. ctest ends a test that hangs.
void await(Process& process, Condition condition) {
  while (process.condition() != condition)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(Process, RunsIsStoppedIsTracedAndIsGone) {
  Child child;
  Process process(child.pid(), start_time_of(child.pid()));
  EXPECT_EQ(process.condition(), Condition::runs);
  child.send(SIGSTOP);
  await(process, Condition::stopped);
  child.send(SIGCONT);
  await(process, Condition::runs);
  if (ptrace(PTRACE_ATTACH, child.pid(), nullptr, nullptr) == 0) {
    await(process, Condition::traced);
    waitpid(child.pid(), nullptr, 0);
    ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
  }
  child.send(SIGKILL);
  await(process, Condition::gone);  // not yet reaped
  child.end();
  EXPECT_EQ(process.condition(), Condition::gone);
}

TEST(Process, ALaterProcessWithTheSameNumberIsAnother) {
  Child child;
  EXPECT_GT(start_time_of(child.pid()), 0u);
  EXPECT_EQ(Process(child.pid(), start_time_of(child.pid())).condition(), Condition::runs);
  EXPECT_EQ(Process(child.pid(), start_time_of(child.pid()) - 1).condition(), Condition::gone);
  EXPECT_EQ(Process(child.pid(), 0).condition(), Condition::runs);
}

TEST(Process, HasAnAgeAndAName) {
  const auto began = std::chrono::steady_clock::now();
  Child child;
  EXPECT_EQ(program_of(child.pid()), "process");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double age = age_of(child.pid());
  const std::chrono::duration<double> most = std::chrono::steady_clock::now() - began;
  EXPECT_GE(age, 0.28);
  EXPECT_LE(age, most.count() + 0.02) << "its unit is a tick, 10 ms";
  child.end();
  EXPECT_EQ(age_of(child.pid()), 0);
  EXPECT_EQ(program_of(child.pid()), "");
}

TEST(Process, ALackOfDescriptorsIsNotItsEnd) {
  Child alive, before;
  const int gone = [] {
    Child child;
    return child.pid();
  }();
  Process opened(before.pid(), start_time_of(before.pid()));
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {0, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool refused = open("/dev/null", O_RDONLY) < 0;
  const Condition of_alive = Process(alive.pid(), 0).condition(),
                  of_gone = Process(gone, 0).condition();
  before.send(SIGSTOP);
  await(opened, Condition::stopped);
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(refused);
  EXPECT_EQ(of_alive, Condition::runs);
  EXPECT_EQ(of_gone, Condition::gone);
}

}  // namespace
}  // namespace lockstep
