#include "collectives/watch/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "collectives/watch/end_all_ranks.h"
#include "collectives/watch/launch.h"
#include "src/base/clock.h"
#include "src/base/machine.h"
#include "src/base/stopped_within.h"

namespace lockstep {
namespace {

/// Looks that may be missed: a later thread was not watching.
constexpr double kMissed = 10;

/// Seconds until the launcher is ended if a host cannot be reached: to print the line, and to end
/// all ranks by itself, which works if it reaches all hosts.
constexpr double kToPrint = 0.7, kToEnd = 3;
/// Time for the host that prints. Open MPI 4 crashes if it is ended after MPI_Abort from another
/// host.
constexpr std::chrono::seconds kForPrinter(2);

std::string name_of(const RankRecorder::State& state) {
  return fmt::format("rank {} (pid {}, host {})", state.rank, state.pid, host_name());
}

std::string place_of(const RankRecorder::State& state) {
  const std::string phase = state.phase.empty() ? "" : " during " + state.phase;
  return (state.step < 0 ? "before the first step" : fmt::format("at step {}", state.step)) + phase;
}

const char* resume_hint(const FlightRecorder& flight_recorder) {
  return flight_recorder.has_saved()
             ? " The same command resumes from its last checkpoint or state."
             : "";
}

constexpr double kOtherNodes = 10;  ///< factor of the limit if the cause is on another node

/// The rank with the lowest value is behind.
auto blame(const RankRecorder::State& state) {
  return std::make_tuple(state.condition, state.step, state.waiting, state.mark_ns);
}

}  // namespace

std::optional<HangDetector::Verdict> HangDetector::judge(const FlightRecorder& flight_recorder,
                                                         double timeout, double elapsed) {
  int behind = -1;
  RankRecorder::State least;
  for (int i = 0; i < flight_recorder.size(); ++i) {
    const RankRecorder::State state = flight_recorder[i].read();
    if (state.has_left) continue;
    if (behind >= 0 && blame(state) >= blame(least)) continue;
    behind = i;
    least = state;
  }
  if (behind < 0) return std::nullopt;
  const bool same = behind == behind_ && least.mark_ns == mark_ns_;
  silent_ = same ? silent_ + elapsed : 0;
  behind_ = behind;
  mark_ns_ = least.mark_ns;
  double limit = std::max(least.limit_seconds, timeout);
  if (least.waiting && least.condition == Condition::runs && !alone_) limit *= kOtherNodes;
  if (silent_ <= limit) return std::nullopt;
  return Verdict{behind, limit};
}

Watchdog::Watchdog(FlightRecorder& flight_recorder, bool alone, std::string program,
                   const Pace& pace, std::unique_ptr<Heartbeat> heartbeat)
    : flight_recorder_(flight_recorder),
      program_(std::move(program)),
      pace_(pace),
      hang_detector_(alone),
      heartbeat_(std::move(heartbeat)),
      memory_kills_(memory_kills()) {
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() { flight_recorder_.mine().goodbye(); }

void Watchdog::watch(const std::stop_token& stop) {
  double last = now_seconds();
  while (!stopped_within(stop, pace_.look)) {
    const double now = now_seconds();
    check(now - last);
    last = now;
  }
}

/// From the certain to the presumed: a death and a stop are facts of the kernel. The heartbeat
/// needs a second witness, the silence of the own ranks. A hang is judged last, and not at all
/// while the network is suspected.
void Watchdog::check(double elapsed) {
  // After a suspended job the clocks are far ahead. Unwatched time does not count, and the ranks
  // may be continued one after another.
  if (elapsed > kMissed * pace_.look) {
    elapsed = kMissed * pace_.look;
    stopped_ = -elapsed;
  }
  if (flight_recorder_.failing()) {
    failing_ += elapsed;
    if (failing_ > pace_.grace) std::_Exit(kExitFailure);
    return;
  }
  if (RankRecorder* watched = neighbour()) {
    const Condition condition = process_->condition();
    watched->seen(condition);
    // It may have called goodbye() since neighbour() chose it.
    const RankRecorder::State state = watched->read();
    if (condition == Condition::gone && !state.has_left) {
      if (!flight_recorder_.anyone_has_left()) return report_death(state);
      // All had reached the end of MPI. If a rank leaves with an exit code other than 0, the
      // launcher kills ranks that do not follow within a second.
      watched->goodbye();
      return;
    }
    stopped_ = condition == Condition::stopped ? stopped_ + elapsed : 0;
    if (stopped_ > pace_.stopped) return report_stopped(state);
  }
  if (heartbeat_) {
    const auto verdict = heartbeat_->poll(flight_recorder_, timeout_, elapsed);
    flight_recorder_.suspect_network(heartbeat_->suspects());
    if (verdict) report_unreachable(*verdict);
  }
  const auto verdict = hang_detector_.judge(flight_recorder_, timeout_, elapsed);
  if (verdict && !flight_recorder_.suspects_network()) report_hang(*verdict);
}

/// The next rank of the node that has not left and whose process is visible; null: none. Sets
/// process_ to its process.
RankRecorder* Watchdog::neighbour() {
  const std::uint64_t pid_space = flight_recorder_.mine().read().pid_space;
  for (int i = 1; i < flight_recorder_.size(); ++i) {
    RankRecorder& other =
        flight_recorder_[(flight_recorder_.index() + i) % flight_recorder_.size()];
    const RankRecorder::State state = other.read();
    if (state.has_left || state.pid_space != pid_space) continue;
    if (!process_ || process_->pid() != state.pid) {
      process_ = std::make_unique<Process>(state.pid, state.start_time);
      stopped_ = 0;
    }
    return &other;
  }
  return nullptr;
}

void Watchdog::end(const std::string& text, int exit_code) {
  print_and_end_all_ranks(program_ + ": " + text, exit_code);
}

void Watchdog::report_death(const RankRecorder::State& dead) {
  if (!flight_recorder_.first_failure()) return;
  const char* const cause =
      memory_kills() > memory_kills_
          ? "The kernel killed a process of this host because memory was short: use fewer ranks, "
            "or "
            "a smaller --batch."
          : "Look for its last lines, or the kernel's (dmesg: out of memory?).";
  end(fmt::format("{} died {}. {}{}", name_of(dead), place_of(dead), cause,
                  resume_hint(flight_recorder_)),
      kExitLost);
}

void Watchdog::report_stopped(const RankRecorder::State& stopped) {
  if (!flight_recorder_.first_failure()) return;
  end(fmt::format("{} was stopped by a signal (SIGSTOP?) {}. Stop and continue all ranks together.",
                  name_of(stopped), place_of(stopped)),
      kExitHang);
}

void Watchdog::report_hang(const HangDetector::Verdict& verdict) {
  const RankRecorder::State late = flight_recorder_[verdict.behind].read();
  // The rank with the heartbeat knows more.
  if (late.waiting && !heartbeat_) std::this_thread::sleep_for(kForPrinter);
  if (!flight_recorder_.first_failure()) return;
  const std::string frozen = heartbeat_ ? heartbeat_->frozen(timeout_) : "";
  std::string who = name_of(late) + " is behind";
  if (late.waiting) {
    who = fmt::format(
        "all ranks on host {} wait for {}", host_name(),
        frozen.empty() ? "others" : fmt::format("host {}, which is stopped or overloaded", frozen));
  }
  if (late.condition == Condition::traced) who = name_of(late) + " is held by a debugger";
  if (late.condition == Condition::stopped) who = name_of(late) + " is stopped by a signal";
  std::string text = fmt::format(
      "no progress for {:g} s: {}, {}. If it only needs more time, pass a longer --timeout.\n"
      "    rank      pid       step  seconds since  phase\n",
      verdict.limit, who, place_of(late));
  for (int i = 0; i < flight_recorder_.size(); ++i) {
    const RankRecorder::State state = flight_recorder_[i].read();
    text += fmt::format("{:>3} {:>4} {:>8} {:>10} {:>14.1f}  {}\n", i == verdict.behind ? "->" : "",
                        state.rank, state.pid, state.step, state.seconds_since,
                        state.has_left ? "has left" : state.phase);
  }
  text.pop_back();
  // If several hosts find a hang at the same time, that of rank 0 prints, and ends the others.
  if (flight_recorder_[0].read().rank > 0) std::this_thread::sleep_for(kForPrinter);
  end(text, kExitHang);
}

/// Ends mpirun and its daemon too, because neither can end a run whose hosts are cut off.
void Watchdog::report_unreachable(const Heartbeat::Verdict& verdict) {
  if (!flight_recorder_.first_failure()) return;
  heartbeat_->announce(verdict);
  const std::string line = fmt::format(
      "{}: host {} cannot reach host {}, without an answer for {:g} s {}. Check the network and "
      "the power of both.{}",
      program_, heartbeat_->names({verdict.from}), heartbeat_->names(verdict.to),
      PeerReachability::limit(timeout_), place_of(flight_recorder_.mine().read()),
      resume_hint(flight_recorder_));
  if (!heartbeat_->prints()) std::this_thread::sleep_for(kForPrinter);
  const Launcher launcher = find_launcher();
  end_later(launcher, launcher.main ? kToPrint : kToEnd);
  const bool own = verdict.from == heartbeat_->self();
  if (!launcher.main && (own || heartbeat_->prints())) print_and_end_all_ranks(line, kExitLost);
  if (!launcher.main) end_all_ranks(kExitLost);
  print_and_exit(line, kExitLost);
}

}  // namespace lockstep
