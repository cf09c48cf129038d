#include "apps/signals.h"

#include <initializer_list>

namespace lockstep {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

/// Ends this process as `signal` does where nobody takes it, and tells the parent so.
void end_by(int signal, const sigset_t& blocked) {
  std::signal(signal, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  std::raise(signal);
}

}  // namespace

Signals::Signals() {
  sigemptyset(&set_);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&set_, signal);
  if (!is_ignored(SIGHUP)) sigaddset(&set_, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  thread_ = std::thread([this] { take(); });
}

Signals::~Signals() {
  leaving_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void Signals::take() {
  for (int signal = 0, interrupts = 0; sigwait(&set_, &signal) == 0 && !leaving_;) {
    ++taken_;
    if (signal == SIGINT && ++interrupts == 2) end_by(signal, set_);
  }
}

}  // namespace lockstep
