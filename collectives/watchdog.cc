#include "collectives/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>

#include "src/machine.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLookEvery(250);
constexpr double kOtherNodes =
    10;                       ///< times the limit while the cause may be found on another node
constexpr double kGrace = 5;  ///< seconds that the rank which explains gets to end all

enum class Condition { stopped, runs, gone };

/// What the kernel says of process `pid`. One that has ended but has not been collected by its
/// parent is gone.
Condition condition_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) return Condition::gone;
  const std::size_t name_end = line.rfind(')');  // "pid (name) state ..."
  if (name_end == std::string::npos || name_end + 2 >= line.size()) return Condition::runs;
  switch (line[name_end + 2]) {
    case 'Z':
    case 'X':
      return Condition::gone;
    case 'T':
    case 't':
      return Condition::stopped;
    default:
      return Condition::runs;
  }
}

/// The lowest is behind: see the class.
auto blame(const Record::State& state, Condition condition) {
  return std::make_tuple(condition, state.step, state.waiting, state.mark_ns);
}

std::string place_of(const Record::State& state) {
  const std::string phase = state.phase.empty() ? "" : " during " + state.phase;
  return (state.step < 0 ? "before the first step" : fmt::format("at step {}", state.step)) + phase;
}

}  // namespace

Watchdog::Watchdog(const World& world, double timeout_seconds)
    : Watchdog(world.records(), timeout_seconds, world.records().size() == world.comm().size()) {}

Watchdog::Watchdog(Records& records, double timeout_seconds, bool alone)
    : records_(records), timeout_(timeout_seconds), alone_(alone) {
  records_.mine().hello();
  thread_ = std::jthread([this](std::stop_token stop) { watch(stop); });
}

Watchdog::~Watchdog() { records_.mine().goodbye(); }

void Watchdog::watch(std::stop_token stop) {
  Clock::time_point last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    woken_.wait_for(lock, stop, kLookEvery, [] { return false; });
    const Clock::time_point now = Clock::now();
    // A job that was suspended finds its clocks far ahead: what was not watched does not count.
    look(std::chrono::duration<double>(std::min<Clock::duration>(now - last, 4 * kLookEvery))
             .count());
    last = now;
  }
}

void Watchdog::look(double elapsed) {
  if (records_.failing()) {
    failing_ += elapsed;
    if (failing_ > kGrace) std::_Exit(kExitFailure);
    return;
  }
  const std::uint64_t pid_space = records_.mine().read().pid_space;
  int behind = -1;
  Record::State least;
  Condition least_condition = Condition::runs;
  for (int i = 0; i < records_.size(); ++i) {
    const Record::State state = records_[i].read();
    if (state.said_goodbye) continue;
    const Condition condition =
        state.pid_space == pid_space ? condition_of(state.pid) : Condition::runs;
    if (condition == Condition::gone) return report_death(state);
    if (behind < 0 || blame(state, condition) < blame(least, least_condition)) {
      behind = i;
      least = state;
      least_condition = condition;
    }
  }
  if (behind < 0 || timeout_ <= 0) return;
  const bool same = behind == behind_ && least.mark_ns == mark_ns_;
  silent_ = same ? silent_ + elapsed : 0;
  behind_ = behind;
  mark_ns_ = least.mark_ns;
  double limit = least.limit_seconds > 0 ? least.limit_seconds : timeout_;
  const bool stopped = least_condition == Condition::stopped;
  if (least.waiting && !stopped && !alone_) limit *= kOtherNodes;
  if (silent_ > limit) report_silence(behind, limit, stopped);
}

void Watchdog::report_death(const Record::State& dead) {
  if (!records_.first_failure()) return;
  fmt::print(stderr,
             "rank {} (pid {}, host {}) died {}: its own last words, or the kernel's (dmesg: out "
             "of memory?), say why; the same "
             "command goes on from the last checkpoint\n",
             dead.rank, dead.pid, host_name(), place_of(dead));
  end_all_ranks(kExitFailure);
}

void Watchdog::report_silence(int behind, double limit, bool stopped) {
  if (!records_.first_failure()) return;
  const Record::State late = records_[behind].read();
  const std::string who =
      late.waiting && !stopped
          ? fmt::format("all ranks on host {} wait for others", host_name())
          : fmt::format("rank {} (pid {}, host {}) is {}", late.rank, late.pid, host_name(),
                        stopped ? "stopped, by a signal or a debugger" : "behind");
  std::string text = fmt::format(
      "no progress for {:.0f} s: {}, {}; if it only needs longer, give it more by --timeout\n"
      "    rank      pid       step  seconds since  phase\n",
      limit, who, place_of(late));
  for (int i = 0; i < records_.size(); ++i) {
    const Record::State state = records_[i].read();
    text += fmt::format("{:>3} {:>4} {:>8} {:>10} {:>14.1f}  {}\n", i == behind ? "->" : "",
                        state.rank, state.pid, state.step, state.seconds_since,
                        state.said_goodbye ? "has left" : state.phase);
  }
  fmt::print(stderr, "{}", text);
  end_all_ranks(kExitFailure);
}

}  // namespace lockstep
