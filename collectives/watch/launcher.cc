#include "collectives/watch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <string>

#include "src/base/process.h"

namespace lockstep {
namespace {

constexpr int kAncestors = 8;     ///< searched, because scripts may start a rank
constexpr double kBetween = 0.3;  ///< seconds between signals; the launcher kills ranks after 1 s

// From here to the end of serve(): only functions that a signal handler may call, because this runs
// after fork() in a process with several threads.

void sleep_for(double seconds) {
  timespec time = {};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  while (::nanosleep(&time, &time) != 0) {
  }
}

/// Uses a descriptor, if the kernel supports it (5.3), because a later process may get the same
/// pid.
bool send(int descriptor, int pid, int signal) {
#ifdef SYS_pidfd_send_signal
  if (descriptor >= 0) return ::syscall(SYS_pidfd_send_signal, descriptor, signal, nullptr, 0) == 0;
#endif
  return ::kill(pid, signal) == 0;
}

/// Returns early if the process ends.
void wait_for_end(int descriptor, int pid, double seconds) {
  pollfd ends = {.fd = descriptor, .events = POLLIN, .revents = 0};
  if (descriptor >= 0) {
    ::poll(&ends, 1, static_cast<int>(seconds * 1e3));
    return;
  }
  constexpr double kLook = 0.1;
  for (; seconds > 0 && ::kill(pid, 0) == 0; seconds -= kLook) sleep_for(std::min(seconds, kLook));
}

int open_process(int pid) {
#ifdef SYS_pidfd_open
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
#else
  return -1;
#endif
}

[[noreturn]] void serve(int pid, double delay) {
  // The launcher signals its session, and waits until its output is closed.
  ::setsid();
  for (int file = 0, end = static_cast<int>(::sysconf(_SC_OPEN_MAX)); file < end && file < 65536;
       ++file)
    ::close(file);
  const int descriptor = open_process(pid);
  if (descriptor < 0 && errno == ESRCH) ::_exit(0);  // gone; its pid may be reused
  wait_for_end(descriptor, pid, delay);
  for (const int signal : {SIGTERM, SIGTERM, SIGKILL}) {
    if (!send(descriptor, pid, signal)) break;  // gone
    wait_for_end(descriptor, pid, signal == SIGTERM ? kBetween : 0);
  }
  ::_exit(0);
}

}  // namespace

Launcher find_launcher() {
  int pid = ::getppid();
  for (int i = 0; i < kAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    std::string name = program_of(pid);
    name.resize(std::min(name.find('.'), name.size()));  // mpirun.openmpi
    if (name == "mpirun" || name == "mpiexec" || name == "orterun" || name == "prterun")
      return {pid, true};
    if (name == "orted" || name == "prted") return {pid, false, name == "prted"};
  }
  return {};
}

void end_later(const Launcher& launcher, double delay) {
  if (launcher.pid == 0) return;
  if (::fork() == 0) serve(launcher.pid, delay);
}

}  // namespace lockstep
