#include "apps/supervise/supervisor.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/run_end.h"

// The loop reacts to signals of the user, answers of hosts, new steps and the end of mpirun. mpirun
// may wait for ever for a host without power. So hosts are asked when steps stop. A host that is
// silent twice in a row ends mpirun by SIGKILL. Every end of mpirun, for whatever reason, goes
// through on_end(). After a failure all hosts are asked, and the ranks start again on those that
// answer.
namespace lockstep {
namespace {

constexpr double kAsk = 1;      ///< seconds between questions to hosts that are out
constexpr double kRequest = 5;  ///< between requests: ranks that are starting may miss one
constexpr double kQuickLook = 0.02,
                 kLook = 0.5;            ///< at the step; a start and a pending line: quick
constexpr double kQuiet = 1, kGaps = 3;  ///< steps have stopped: seconds, mean gaps between steps
constexpr double kQuickStart = 5;        ///< a rank that is there is seen by then
constexpr int kSilent = 2;               ///< questions in a row without an answer: the host is lost
constexpr double kFirstAnswer = 10;      ///< seconds: a host that is silent while the ranks start
constexpr double kStopped = 2;           ///< seconds: a rank that is starting was stopped for good
/// Seconds without a rank until mpirun is ended: before the first one, and after the last one.
constexpr double kStartLimit = 120, kEndLimit = 30;
constexpr double kLongStart = 60;  ///< then the program writes no steps, or reads much data
constexpr double kPause =
    2;  ///< before the third start at one step: memory may be full for a while
/// mpirun is quiet, because its boxes would follow each error of the program.
constexpr const char* kSeeMore =
    "Look at the lines above. OMPI_MCA_orte_execute_quiet=0 shows mpirun's own (Open MPI 5: "
    "PRTE_MCA_prte_execute_quiet=0).";

std::string at_step(std::int64_t step) { return step < 0 ? "" : fmt::format(" at step {}", step); }

/// "lost host node2 (ranks 2, 3)"
std::string lost_text(const std::vector<HostRange>& shares, const std::vector<std::string>& lost) {
  std::vector<std::string> texts;
  for (const HostRange& share : shares) {
    if (std::ranges::find(lost, share.host) != lost.end())
      texts.push_back(fmt::format("{} ({})", share.host, ranks_text(share)));
  }
  return fmt::format("lost host{} {}", texts.size() == 1 ? "" : "s", fmt::join(texts, ", "));
}

std::vector<std::string> names_of(const std::vector<HostRange>& shares) {
  std::vector<std::string> names;
  for (const HostRange& share : shares) names.push_back(share.host);
  return names;
}

}  // namespace

Cause cause_of(const End& end) {
  const RunEnd known = end_of(end.code);
  if (known.code == end.code) return {known.starts_again, std::string(known.what)};
  const int signal = end.code - 128;  // as shells and mpirun return it
  if (signal == SIGPIPE && end.launcher) return {false, "the reader of the output has ended"};
  if (signal > 0 && signal < NSIG && sigabbrev_np(signal) != nullptr) {
    return {true, fmt::format("{} was killed by SIG{}", end.launcher ? "mpirun" : "a rank",
                              sigabbrev_np(signal))};
  }
  return {true, fmt::format("the ranks failed with exit code {}", end.code)};
}

Supervisor::Supervisor(const SupervisorOptions& options, Machines& machines)
    : options_(options), machines_(machines), hosts_(options.hosts) {}

int Supervisor::run() {
  start({}, -1);
  std::optional<int> code;
  while (!code) {
    const bool starts = !present_.has_run && machines_.now() - present_.idle_since < kQuickStart;
    const bool may_wait = pending_.what.empty() && !starts;
    const Machines::Event event = machines_.wait(may_wait ? kLook : kQuickLook);
    if (event.signal != 0) on_signal(event.signal);
    if (!event.answers.empty()) on_answers(event.answers);
    look_at_step();
    if (event.ended) {
      code = on_end(*event.ended);
    } else if (stop_signal_ != 0 && machines_.now() >= next_request_) {
      machines_.send(SIGUSR1);
      next_request_ = machines_.now() + kRequest;
    } else {
      ask_if_stalled();  // first: a host that is out and silent is asked again and again
      ask_missing();
    }
    if (!event.ended) end_if_idle();
  }
  print_pending("");
  if (!end_of(last_code_).keeps_states) machines_.forget();
  return *code;
}

/// mpirun may fail to start the ranks, or to end after them, without a word. If the user wants to
/// stop, and no rank has run, there is nothing to save.
void Supervisor::end_if_idle() {
  const double now = machines_.now();
  if (machines_.ranks_run()) {
    present_.has_run = true;
    present_.idle_since = now;
  }
  const double to_start = stop_signal_ != 0 ? 0 : kStartLimit,
               limit = present_.has_run ? kEndLimit : to_start;
  if (now - present_.idle_since <= limit || !present_.why_idle.empty()) return;
  present_.why_idle = fmt::format(
      "mpirun {} in {:.0f} s", present_.has_run ? "did not end after the ranks" : "started no rank",
      now - present_.idle_since);
  machines_.send(SIGKILL);
}

void Supervisor::start(const Machines::Change& change, std::int64_t step) {
  if (!change.what.empty()) {
    // The line of the change before may still wait for a step. It is printed without one.
    print_pending("");
    pending_ = {.what = change.what + at_step(step), .at = change.at};
  }
  present_ = {.shares = hosts_.share(options_.ranks),
              .joined = std::exchange(joining_, {}),
              .progress_at = machines_.now(),
              .idle_since = machines_.now()};
  next_ask_ = machines_.now() + kAsk;
  machines_.start(present_.shares, change, ++starts_);
}

void Supervisor::look_at_step() {
  const std::int64_t step = machines_.step();
  if (step > present_.step) note_progress(step);
  if (pending_.what.empty()) return;
  const double seconds = machines_.now() - pending_.at;
  const int ranks = rank_count(present_.shares);
  const std::string text = counted(ranks, "rank") + (ranks == 1 ? " goes on" : " go on");
  // The first number is the step that the ranks resumed from. A higher one proves that they train.
  if (pending_.from < 0) pending_.from = step;
  if (step > pending_.from) {
    print_pending(fmt::format("; {} from step {} after {:.1f} s", text, pending_.from, seconds));
  } else if (step < 0 && seconds > kLongStart) {
    print_pending("; " + text);
  }
}

void Supervisor::note_progress(std::int64_t step) {
  constexpr double kNew = 0.2;
  const double now = machines_.now(), gap = now - present_.progress_at;
  // The time from the start to the first step is no gap between steps.
  if (present_.step >= 0)
    present_.mean_gap += (present_.mean_gap == 0 ? 1 : kNew) * (gap - present_.mean_gap);
  present_.step = step;
  newest_step_ = std::max(newest_step_, step);
  present_.progress_at = now;
  present_.stalled_questions = present_.silent = 0;
}

void Supervisor::print_pending(const std::string& end) {
  if (!pending_.what.empty()) machines_.tell(pending_.what + end);
  pending_ = {};
}

void Supervisor::on_signal(int signal) {
  if (stop_signal_ == 0)
    machines_.tell("stop requested, waiting for the ranks. Repeat the signal to end at once.");
  stop_signal_ = signal;
  // Batch systems may repeat others.
  if (signal == SIGINT || signal == SIGTERM) ++interrupts_;
  if (interrupts_ > 1) machines_.send(SIGKILL);
}

/// Asks the hosts that are out, if they may be of use.
void Supervisor::ask_missing() {
  const std::vector<std::string> out = hosts_.out();
  if (asking_ != Asking::none || out.empty() || stop_signal_ != 0 || !joining_.empty()) return;
  if (machines_.now() < next_ask_ || rank_count(present_.shares) >= options_.ranks) return;
  machines_.ask(out);
  asking_ = Asking::missing;
  next_ask_ = machines_.now() + kAsk;
}

/// A host without power or network does not answer, and MPI waits for it. So the hosts in use are
/// asked when steps stop, and less often while all of them answer.
void Supervisor::ask_if_stalled() {
  if (asking_ != Asking::none || present_.shares.size() < 2 || !present_.why_ended.empty()) return;
  constexpr int kMostDoublings = 5;
  const double quiet = std::max(kQuiet, kGaps * present_.mean_gap) *
                       (1 << std::min(present_.stalled_questions, kMostDoublings));
  // After silence the next question follows at once, because the second one decides.
  if (present_.silent == 0 && machines_.now() - present_.progress_at < quiet) return;
  ++present_.stalled_questions;
  machines_.ask(names_of(present_.shares));
  asking_ = Asking::stalled;
}

void Supervisor::on_answers_of_stalled(const std::vector<Machines::Answer>& answers) {
  const bool all = std::ranges::all_of(answers, &Machines::Answer::answers);
  // One silence may be a slow agent or a busy machine. Any answer of all hosts begins the count
  // again.
  present_.silent = all ? 0 : present_.silent + 1;
  // The ranks notice a stopped one, but not if it is alone on its host while MPI starts.
  const double now = machines_.now();
  if (present_.step >= 0 || std::ranges::none_of(answers, &Machines::Answer::stopped)) {
    present_.stopped_at = 0;
  } else if (present_.stopped_at == 0) {
    present_.stopped_at = now;
  }
  const bool stopped = present_.stopped_at > 0 && now - present_.stopped_at >= kStopped;
  // No step is lost while the ranks start, so a slow host gets more time.
  const bool starts = present_.step < 0 && now - present_.progress_at < kFirstAnswer;
  if ((present_.silent < kSilent || starts) && !stopped) return;
  machines_.send(SIGKILL);  // mpirun too would wait for the host
  present_.why_ended = stopped ? "a rank was stopped by a signal" : "a host did not answer in time";
}

void Supervisor::on_answers(const std::vector<Machines::Answer>& answers) {
  if (std::exchange(asking_, Asking::none) == Asking::stalled)
    return on_answers_of_stalled(answers);
  for (const Machines::Answer& answer : answers) {
    if (answer.answers && hosts_.may_join(answer.host, machines_.now()))
      joining_.push_back(answer.host);
  }
  // Ranks that have not finished a step may still be starting, and a request would kill them.
  if (joining_.empty() || stop_signal_ != 0) return;
  if (!pending_.what.empty()) return joining_.clear();
  machines_.send(SIGUSR1);
}

std::optional<int> Supervisor::on_end(const End& end) {
  // The order of the tests matters. A request of the user comes first: ranks that were asked to
  // stop end in many ways.
  Cause cause = cause_of(end);
  last_code_ = end.code;
  if (!present_.why_idle.empty()) cause.what = present_.why_idle;
  if (interrupts_ > 1) return 128 + stop_signal_;
  // A request that comes before the ranks can answer kills them.
  const bool stopped = end.code == kExitRequeue || end.code == 128 + SIGUSR1;
  if (stop_signal_ != 0) {
    const bool resumes = stopped || (cause.restarts && end.code != kExitFailure);
    if (resumes && end.code != kExitRequeue)
      machines_.tell("the ranks ended without a checkpoint. The same command continues.");
    return resumes ? kExitRequeue : end.code;
  }
  if (!joining_.empty() && stopped) {
    const bool one = joining_.size() == 1;
    const std::string what =
        fmt::format("host{} {} join{}", one ? "" : "s", fmt::join(joining_, ", "), one ? "s" : "");
    for (const std::string& host : joining_) hosts_.join(host);
    start({what, machines_.now()}, newest_step_);
    return {};
  }
  // mpirun of Open MPI 5 returns 0 if it loses a host. A run that is complete leaves no step
  // behind. That of Open MPI 4 may return 0 without a rank if it was stopped at its start.
  const bool none = end.was_stopped && !present_.has_run;
  if (end.code == kExitSuccess && (none || machines_.step() >= 0)) {
    last_code_ = kExitLost;
    return on_failure({kExitLost}, cause_of({kExitLost}));
  }
  if (!cause.restarts) return end.code;
  return on_failure(end, cause);
}

std::optional<int> Supervisor::on_failure(const End& end, const Cause& cause) {
  // If this process ended the ranks, the failure is older: it happened when the steps stopped.
  const bool by_us = !present_.why_ended.empty();
  const double at = by_us ? present_.progress_at : machines_.now();
  std::vector<std::string> lost;
  // The same question ends the ranks that are left on each host. A new start must not meet them.
  for (const Machines::Answer& answer : answers_of_all()) {
    newest_step_ = std::max(newest_step_, answer.step);
    if (!answer.answers) lost.push_back(answer.host);
  }
  // A host that answers, but cannot run ranks, must not end the run of the others.
  if (lost.empty() && !pending_.what.empty()) lost = present_.joined;
  for (const std::string& host : lost) hosts_.lost(host, at);
  std::string what = by_us ? present_.why_ended : cause.what;
  if (!lost.empty()) what = lost_text(present_.shares, lost);
  // A finished step shows that the failure is not bound to its place. A lost host says nothing
  // about the program, so it does not count.
  if (newest_step_ > last_step_) same_ = 0;
  if (lost.empty()) ++same_;
  last_step_ = newest_step_;
  ++failures_;
  if (stop_signal_ != 0) return kExitRequeue;
  // An error of the set-up would come again. The ranks have printed it, except if a signal to
  // mpirun ended them.
  const bool began = end.code != kExitFailure && (present_.has_run || present_.why_idle.empty());
  if (lost.empty() && !began && newest_step_ < 0) {
    machines_.tell(fmt::format("{} before the first step. {}", cause.what, kSeeMore));
    return present_.why_idle.empty() ? end.code : kExitHang;
  }
  const int left = rank_count(hosts_.share(options_.ranks));
  const std::string why = why_to_end(left);
  if (why.empty()) {
    if (same_ + 1 == kPoisoned) pause(kPause);
    if (stop_signal_ != 0) return kExitRequeue;
    start({what, at}, newest_step_);
    return {};
  }
  print_pending("");
  machines_.tell(fmt::format("{}{}; {}", what, at_step(newest_step_), why));
  return left < options_.least ? kExitLost : end.code;
}

/// Why the run ends after a failure with `left` ranks; empty: the ranks start again.
std::string Supervisor::why_to_end(int left) const {
  constexpr const char* kResumes = "The same command resumes (--run FOLDER in place of --new).";
  if (same_ >= kPoisoned) {
    return fmt::format("{} failures without another finished step. {}", same_, kSeeMore);
  }
  if (failures_ > options_.restarts) {
    return fmt::format("{}, and --restarts is {}. {}", counted(failures_, "failure"),
                       options_.restarts, kResumes);
  }
  if (left < options_.least) {
    return fmt::format("{} left, and --min-np is {}. {}",
                       left == 1 ? "1 rank is" : fmt::format("{} ranks are", left), options_.least,
                       kResumes);
  }
  return "";
}

/// Waits, at most until a signal comes.
void Supervisor::pause(double seconds) {
  const double end = machines_.now() + seconds;
  while (stop_signal_ == 0 && machines_.now() < end) {
    const int signal = machines_.wait(end - machines_.now()).signal;
    if (signal != 0) on_signal(signal);
  }
}

/// Asks all hosts that are in use, and waits for the answers.
std::vector<Machines::Answer> Supervisor::answers_of_all() {
  const auto wait_for_answers = [&] {
    for (;;) {
      Machines::Event event = machines_.wait(kLook);
      if (event.signal != 0) on_signal(event.signal);
      if (!event.answers.empty()) return event.answers;
    }
  };
  // Machines takes one question at a time. The old answers are of the time before the end, and are
  // not used.
  if (asking_ != Asking::none) wait_for_answers();  // to a former question
  asking_ = Asking::none;
  machines_.ask(names_of(present_.shares));
  return wait_for_answers();
}

}  // namespace lockstep
