#include "src/base/signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

namespace lockstep {
namespace {

bool hangup_is_ignored = false;

/// Runs before libraries are initialised: UCX, which Open MPI 5 uses, installs a handler for SIGHUP
/// even if it was ignored. Sanitizers are not initialised either.
__attribute__((no_sanitize("address", "thread", "undefined"))) void note_hangup() {
  struct {
    std::uintptr_t handler;
    unsigned char rest[256];
  } action;  // in the kernel's layout
  const bool known = syscall(SYS_rt_sigaction, SIGHUP, nullptr, &action, _NSIG / 8) == 0;
  hangup_is_ignored = known && action.handler == reinterpret_cast<std::uintptr_t>(SIG_IGN);
}
__attribute__((section(".preinit_array"), used)) void (*first_of_all)() = note_hangup;

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGHUP}) sigaddset(&set_, signal);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  std::signal(SIGHUP, hangup_is_ignored ? SIG_IGN : SIG_DFL);
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  // The thread inherits the blocked mask, and sigwait() takes only blocked signals.
  thread_ = std::thread([this] { receive(); });
}

Signals::~Signals() {
  leaving_ = true;
  // sigwait() returns only for a signal. The thread sees `leaving_` and does not count this one.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void Signals::receive() {
  for (int signal = 0, interrupts = 0; sigwait(&set_, &signal) == 0 && !leaving_;) {
    if (signal == SIGHUP && hangup_is_ignored) continue;
    ++received_;
    if (signal != SIGINT || ++interrupts != 2) continue;
    std::signal(signal, SIG_DFL);  // ends the process as its parent expects
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    std::raise(signal);
  }
}

}  // namespace lockstep
