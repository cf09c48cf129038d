// Supervisor: starts the ranks again on the hosts that are left, until they have trained to the
// end. It decides; processes and clocks are behind Machines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/supervise/hosts.h"

namespace lockstep {

/// The end of mpirun.
struct End {
  int code = 0;           ///< its exit code, or 128 + the signal that ended a rank or mpirun
  bool launcher = false;  ///< the signal ended mpirun itself
  bool was_stopped = false;  ///< a signal had stopped mpirun
};

/// Why a start of the ranks ended.
struct Cause {
  bool restarts = false;  ///< a new start can cure it
  std::string what;       ///< "a rank was killed by SIGKILL"; empty: no failure
};

/// By the table in src/base/run_end.h. Any other code is an unknown failure, which a new
/// start may cure. mpirun returns the code of the first rank that failed.
Cause cause_of(const End& end);

/// This machine and the hosts, as the supervisor needs them. Tests replace it. One thread.
class Machines {
 public:
  /// The reason of a start, for the environment of the ranks.
  struct Change {
    std::string what;  ///< "lost host node2 (ranks 2, 3)"; empty: the first start
    double at = 0;     ///< now()
  };
  struct Answer {
    std::string host;
    bool answers = false;
    std::int64_t step = -1;  ///< the last finished step; -1: unknown
    bool stopped = false;    ///< a signal has stopped a rank there
  };
  struct Event {
    std::optional<End> ended;     ///< mpirun has ended
    int signal = 0;               ///< this process received it; 0: none
    std::vector<Answer> answers;  ///< of all hosts that were asked; empty: not all are there yet
  };

  virtual ~Machines() = default;
  virtual double now() = 0;  ///< seconds, of a clock that never steps
  /// Starts mpirun. `number` counts the starts from 1. Throws Error.
  virtual void start(const std::vector<HostRange>& shares, const Change& change, int number) = 0;
  /// Sends `signal` to mpirun, if it runs.
  virtual void send(int signal) = 0;
  /// Asks hosts whether they answer, and for their steps. wait() returns the answers. A host
  /// without an answer after the limit of Machines does not answer. At most one question at a time.
  virtual void ask(const std::vector<std::string>& hosts) = 0;
  /// Returns after an event, or after `seconds` with an empty one.
  virtual Event wait(double seconds) = 0;
  /// The last finished step, as this host knows it; -1: unknown, or the run is complete.
  virtual std::int64_t step() = 0;
  /// Whether ranks of the start run on this host, or may run on others.
  virtual bool ranks_run() = 0;
  /// Removes the state in the memory of all hosts.
  virtual void forget() = 0;
  /// Prints a line with the time.
  virtual void tell(const std::string& line) = 0;
};

struct SupervisorOptions {
  std::vector<Host> hosts;
  int ranks = 1;      ///< wanted
  int least = 1;      ///< with fewer ranks the run ends
  int restarts = 20;  ///< failures that a new start may follow
};

class Supervisor {
 public:
  /// As many failures without a finished step between them end the run. Lost hosts do not count.
  static constexpr int kPoisoned = 3;

  Supervisor(const SupervisorOptions& options, Machines& machines);

  /// Starts the ranks, and again after failures. Returns the exit code for the user.
  int run();

 private:
  /// A change whose line is printed when the ranks run again.
  struct Pending {
    std::string what;        ///< "lost host node2 (ranks 2, 3) at step 1204"; empty: none
    double at = 0;           ///< now() at the failure
    std::int64_t from = -1;  ///< the step from which the ranks go on; -1: not known yet
  };

  /// The start that runs.
  struct Present {
    std::vector<HostRange> shares = {};
    std::vector<std::string> joined = {};  ///< hosts that are new
    std::int64_t step = -1;                ///< that it has finished; -1: unknown
    double progress_at = 0;                ///< when that was, or the start
    double mean_gap = 0;                   ///< seconds between steps, smoothed
    int stalled_questions = 0;             ///< since the last step
    int silent = 0;                        ///< the last of them that a host did not answer
    double stopped_at = 0;                 ///< a rank was seen stopped before a step; 0: none
    std::string why_ended = {};            ///< and so the ranks were ended
    bool has_run = false;                  ///< a rank was seen
    double idle_since = 0;                 ///< no rank was seen since then
    std::string why_idle = {};             ///< and so mpirun was ended
  };

  void start(const Machines::Change& change, std::int64_t step);
  void look_at_step();
  void note_progress(std::int64_t step);
  void print_pending(const std::string& end);
  void on_signal(int signal);
  void ask_missing();
  void ask_if_stalled();
  void end_if_idle();
  void on_answers(const std::vector<Machines::Answer>& answers);
  void on_answers_of_stalled(const std::vector<Machines::Answer>& answers);
  /// The exit code of the run; nothing: the ranks were started again.
  std::optional<int> on_end(const End& end);
  std::optional<int> on_failure(const End& end, const Cause& cause);
  std::string why_to_end(int left) const;
  void pause(double seconds);
  std::vector<Machines::Answer> answers_of_all();

  const SupervisorOptions options_;
  Machines& machines_;
  HostStates hosts_;
  Present present_;
  Pending pending_;
  int starts_ = 0, failures_ = 0;
  int same_ = 0;                   ///< failures of the ranks since a step was finished
  std::int64_t last_step_ = -1;    ///< of the last failure
  std::int64_t newest_step_ = -1;  ///< finished by any start
  int last_code_ = 0;              ///< of the last start
  int stop_signal_ = 0;            ///< the last request of the user to stop; 0: none
  int interrupts_ = 0;             ///< SIGINT and SIGTERM among them
  enum class Asking { none, missing, stalled } asking_ = Asking::none;
  std::vector<std::string> joining_;  ///< hosts for which the ranks were asked to stop
  double next_ask_ = 0, next_request_ = 0;
};

}  // namespace lockstep
