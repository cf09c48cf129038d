#include "collectives/watch/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "collectives/watch/end_all_ranks.h"
#include "collectives/watch/launcher.h"
#include "collectives/watch/reach.h"
#include "src/base/clock.h"
#include "src/base/machine.h"

namespace lockstep {
namespace {

/// Looks that may be missed: a thread that comes so late was not watching.
constexpr double kMissed = 10;

/// Seconds until the launcher is ended if a host cannot be reached. It gets the first to print the
/// line, and the second to end all by itself, which it can if it reaches all hosts.
constexpr double kToPrint = 0.7, kToEnd = 3;
/// Seconds that the host which speaks gets. Open MPI 4 crashes if it is ended after MPI_Abort from
/// another host.
constexpr std::chrono::seconds kToSpeak(2);

std::string name_of(const Record::State& state) {
  return fmt::format("rank {} (pid {}, host {})", state.rank, state.pid, host_name());
}

std::string place_of(const Record::State& state) {
  const std::string phase = state.phase.empty() ? "" : " during " + state.phase;
  return (state.step < 0 ? "before the first step" : fmt::format("at step {}", state.step)) + phase;
}

/// Prints `line` and ends this process without MPI_Abort, within 3 s even if the line is not read.
[[noreturn]] void say_and_leave(const std::string& line) {
  const auto leave = [] {
    std::this_thread::sleep_for(std::chrono::seconds(3));
    std::_Exit(kExitFailure);
  };
  std::thread(leave).detach();
  std::fputs(("\n" + line + "\n").c_str(), stderr);  // the launcher may have left half a line
  std::fflush(nullptr);
  leave();
  std::abort();  // never reached
}

}  // namespace

Watchdog::Watchdog(FlightRecorder& flight_recorder, bool alone, std::string program,
                   const Pace& pace, std::unique_ptr<Heartbeat> heartbeat)
    : flight_recorder_(flight_recorder),
      program_(std::move(program)),
      pace_(pace),
      hang_detector_(alone),
      heartbeat_(std::move(heartbeat)) {
  thread_ = std::jthread([this](std::stop_token stop) { watch(stop); });
}

Watchdog::~Watchdog() { flight_recorder_.mine().goodbye(); }

void Watchdog::watch(std::stop_token stop) {
  double last = now_seconds();
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    woken_.wait_for(lock, stop, std::chrono::duration<double>(pace_.look), [] { return false; });
    const double now = now_seconds();
    look(now - last);
    last = now;
  }
}

void Watchdog::look(double elapsed) {
  // A job that was suspended finds its clocks far ahead: what was not watched does not count, and
  // the ranks may be continued one after another.
  if (elapsed > kMissed * pace_.look) {
    elapsed = kMissed * pace_.look;
    stopped_ = -elapsed;
  }
  if (flight_recorder_.failing()) {
    failing_ += elapsed;
    if (failing_ > pace_.grace) std::_Exit(kExitFailure);
    return;
  }
  if (Record* watched = neighbour()) {
    const Condition condition = process_->condition();
    watched->seen(condition);
    // It may have left in order since it was chosen.
    const Record::State state = watched->read();
    if (condition == Condition::gone && !state.said_goodbye) {
      if (!flight_recorder_.anyone_has_left()) return report_death(state);
      // All had come to the end of MPI. Where a rank leaves with another exit code than 0, the
      // launcher kills those that take longer than a second to follow.
      watched->goodbye();
      return;
    }
    stopped_ = condition == Condition::stopped ? stopped_ + elapsed : 0;
    if (stopped_ > pace_.stopped) return report_stopped(state);
  }
  if (heartbeat_) {
    const auto verdict = heartbeat_->look(flight_recorder_, timeout_, elapsed);
    flight_recorder_.suspect_network(heartbeat_->suspects());
    if (verdict) report_unreachable(*verdict);
  }
  const auto verdict = hang_detector_.look(flight_recorder_, timeout_, elapsed);
  if (verdict && !flight_recorder_.suspects_network()) report_hang(*verdict);
}

/// The next rank of the node that is still there and whose process can be asked about; null where
/// there is none. process_ is its.
Record* Watchdog::neighbour() {
  const std::uint64_t pid_space = flight_recorder_.mine().read().pid_space;
  for (int i = 1; i < flight_recorder_.size(); ++i) {
    Record& record = flight_recorder_[(flight_recorder_.index() + i) % flight_recorder_.size()];
    const Record::State state = record.read();
    if (state.said_goodbye || state.pid_space != pid_space) continue;
    if (!process_ || process_->pid() != state.pid) {
      process_ = std::make_unique<Process>(state.pid, state.start_time);
      stopped_ = 0;
    }
    return &record;
  }
  return nullptr;
}

void Watchdog::end(const std::string& text) {
  print_and_end_all_ranks(program_ + ": " + text, kExitFailure);
}

void Watchdog::report_death(const Record::State& dead) {
  if (!flight_recorder_.first_failure()) return;
  end(fmt::format(
      "{} died {}: its own last words, or the kernel's (dmesg: out of memory?), say "
      "why{}",
      name_of(dead), place_of(dead),
      flight_recorder_.has_saved() ? "; the same command goes on from the last checkpoint" : ""));
}

void Watchdog::report_stopped(const Record::State& stopped) {
  if (!flight_recorder_.first_failure()) return;
  end(
      fmt::format("{} was stopped by a signal (SIGSTOP?) {}, while others ran: a run is stopped "
                  "and continued as a whole or not at all",
                  name_of(stopped), place_of(stopped)));
}

void Watchdog::report_hang(const HangDetector::Verdict& verdict) {
  if (!flight_recorder_.first_failure()) return;
  const Record::State late = flight_recorder_[verdict.behind].read();
  const std::string who =
      late.condition == Condition::stopped  ? name_of(late) + " is stopped by a signal"
      : late.condition == Condition::traced ? name_of(late) + " is held by a debugger"
      : late.waiting ? fmt::format("all ranks on host {} wait for others", host_name())
                     : name_of(late) + " is behind";
  std::string text = fmt::format(
      "no progress for {:g} s: {}, {}; if it only needs longer, give it more by --timeout\n"
      "    rank      pid       step  seconds since  phase\n",
      verdict.limit, who, place_of(late));
  for (int i = 0; i < flight_recorder_.size(); ++i) {
    const Record::State state = flight_recorder_[i].read();
    text += fmt::format("{:>3} {:>4} {:>8} {:>10} {:>14.1f}  {}\n", i == verdict.behind ? "->" : "",
                        state.rank, state.pid, state.step, state.seconds_since,
                        state.said_goodbye ? "has left" : state.phase);
  }
  text.pop_back();
  // If several hosts find a hang at once, that of rank 0 prints, and ends the others meanwhile.
  if (flight_recorder_[0].read().rank > 0) std::this_thread::sleep_for(kToSpeak);
  end(text);
}

/// Neither mpirun nor its daemon can end a run whose hosts are cut off: both are ended here.
void Watchdog::report_unreachable(const Heartbeat::Verdict& verdict) {
  if (!flight_recorder_.first_failure()) return;
  heartbeat_->tell(verdict);
  std::string others;
  for (const int host : verdict.to)
    others += (others.empty() ? "" : " and ") + heartbeat_->name(host);
  const std::string line = fmt::format(
      "{}: host {} cannot reach host {}, without an answer for {:g} s {}. Check the network and "
      "the power of both{}",
      program_, heartbeat_->name(verdict.from), others, Reach::limit(timeout_),
      place_of(flight_recorder_.mine().read()),
      flight_recorder_.has_saved() ? "; the same command goes on from the last checkpoint" : "");
  if (!heartbeat_->speaks()) std::this_thread::sleep_for(kToSpeak);
  const Launcher launcher = find_launcher();
  end_later(launcher, launcher.main ? kToPrint : kToEnd);
  const bool own = verdict.from == heartbeat_->self();
  if (!launcher.main && (own || heartbeat_->speaks())) print_and_end_all_ranks(line, kExitFailure);
  if (!launcher.main) end_all_ranks(kExitFailure);
  say_and_leave(line);
}

}  // namespace lockstep
