#include "apps/signals.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace lockstep {
namespace {

std::atomic<bool> requested =
    false;  // set in a signal handler: nothing but a lock-free flag may be
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int signal) {
  requested = true;
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void watch_signals() {
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
  }
  std::signal(
      SIGXFSZ,
      SIG_IGN);  // a file over the size limit is then an error of write(2), which names the file
}

bool stop_requested() { return requested; }

}  // namespace lockstep
