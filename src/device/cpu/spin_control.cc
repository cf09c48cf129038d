#include "src/device/cpu/spin_control.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <omp.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <latch>
#include <utility>

#include "src/base/clock.h"

namespace lockstep {
namespace {

// Delays as shares of the time between two looks. On 2 cores, a team of 2 has 0.02 to 0.12 without
// other programs, and 0.28 to 0.5 beside one or two busy programs.
constexpr double kLong = 0.2, kShort = 0.15;
constexpr int kLooksToBegin = 2, kLooksToEnd = 20;
constexpr int kMostThreads = 256;  ///< of the second team

/// Nanoseconds in which the thread was ready to run without a core; negative if the kernel does not
/// count them.
std::int64_t delay_of(int thread) {
  char text[96];
  const int file = ::open(fmt::format("/proc/self/task/{}/schedstat", thread).c_str(), O_RDONLY);
  if (file < 0) return -1;
  const ssize_t length = ::read(file, text, sizeof(text) - 1);
  ::close(file);
  if (length <= 0) return -1;
  text[length] = '\0';
  long long ran = 0, delayed = 0;
  return std::sscanf(text, "%lld %lld", &ran, &delayed) == 2 ? delayed : -1;
}

/// Starts `count` threads side by side and ends them. False if a limit of threads or memory forbids
/// it. libgomp would end the process if it could not start a thread of a team.
bool can_start(int count) {
  std::latch tried(1);
  std::vector<std::jthread> threads;
  bool started = true;
  try {
    while (std::ssize(threads) < count) threads.emplace_back([&] { tried.wait(); });
  } catch (const std::exception&) {
    started = false;
  }
  tried.count_down();
  return started;
}

/// Beside the first team, of `team` threads.
void start_second_team(int team) {
  // libgomp counts every thread of a team except the first, and the first of the program.
  const int threads = omp_get_num_procs() + 2 - team;
  if (threads < 2 || threads > kMostThreads) return;
  if (!can_start(2 * threads)) return;  // twice: other ranks may do the same now
  // The region needs some work, or a compiler may remove it with its team.
  std::atomic<int> started = 0;
#pragma omp parallel num_threads(threads)
  started.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

bool ContentionJudge::contended(double share) {
  // Two thresholds and two counts make the judge slow to change its mind. Each change starts or
  // ends a team of threads.
  const bool against = contended_ ? share < kShort : share > kLong;
  against_ = against ? against_ + 1 : 0;
  if (against_ == (contended_ ? kLooksToEnd : kLooksToBegin)) {
    contended_ = !contended_;
    against_ = 0;
  }
  return contended_;
}

SpinControl::SpinControl(std::vector<int> team) {
  for (const int thread : team) team_.push_back({thread, delay_of(thread)});
  const bool counted = std::all_of(team_.begin(), team_.end(), [](auto& d) { return d.ns >= 0; });
  const bool user_decides = std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY");
  if (team_.size() < 2 || !counted || user_decides) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
  pthread_setname_np(thread_.native_handle(), "spin control");  // its team inherits the name
}

void SpinControl::watch(const std::stop_token& stop) {
  // The settings of start_team() hold for the thread that called it. This one needs its own.
  omp_set_dynamic(0);
  omp_set_max_active_levels(1);
  ContentionJudge judge;
  double last = now_seconds();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    woken_.wait_for(lock, stop, std::chrono::duration<double>(ContentionJudge::kWindow),
                    [] { return false; });
    const double now = now_seconds();
    const double seconds = now - std::exchange(last, now);
    sleep(judge.contended(longest_delay() / seconds));
  }
  // The second team must end while this thread lives, because it is the thread's own.
  sleep(false);
}

/// Seconds since the last call.
double SpinControl::longest_delay() {
  std::int64_t longest = 0;
  for (Delay& each : team_) {
    const std::int64_t now = delay_of(each.thread);
    longest = std::max(longest, now - std::exchange(each.ns, now));
  }
  return static_cast<double>(longest) * 1e-9;
}

void SpinControl::sleep(bool on) {
  if (on == sleeps_) return;
  if (on)
    start_second_team(static_cast<int>(team_.size()));
  else
    omp_pause_resource_all(omp_pause_hard);  // ends this thread's team
  sleeps_ = on;
}

}  // namespace lockstep
