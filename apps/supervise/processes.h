// Processes: Machines with real processes. mpirun and the agents that ask hosts are its children.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "apps/supervise/command.h"
#include "apps/supervise/host_ranks.h"
#include "apps/supervise/supervisor.h"

namespace lockstep {

/// A process to start in a group of its own. It gets no signals from the terminal and reads
/// nothing.
struct Child {
  const std::vector<std::string>& words;
  std::map<std::string, std::string> environment = {};
  /// Its standard output and errors; -1: those of this process.
  int output = -1;
  sigset_t blocked = {};           ///< of the signals of this process, those that it does not get
  int at_end_of_parent = SIGTERM;  ///< it gets this if this process ends
};

/// Returns its number; -1: there is none, and errno tells why. If the program cannot be started,
/// its exit code is 127, and its standard error has the reason.
pid_t spawn(const Child& child);

/// Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGCHLD, which wait() receives. If this process
/// ends, even by SIGKILL, the kernel sends SIGUSR1 to mpirun, and the ranks stop after a
/// checkpoint. One object and one thread in a process.
class Processes : public Machines {
 public:
  /// Seconds after which a host does not answer. srun needs longer than ssh. A host that answers
  /// later raises the limit, at most to kMostLimit: its agent is slow, or the machines are busy.
  static constexpr double kLimit = 1, kSlurmLimit = 5, kMostLimit = 10;

  /// `hosts`: all of the run.
  Processes(Command command, const std::vector<Host>& hosts);
  ~Processes() override;  ///< ends what still runs
  Processes& operator=(Processes&&) = delete;

  double now() override;
  void start(const std::vector<HostRange>& shares, const Change& change, int number) override;
  void send(int signal) override;
  void ask(const std::vector<std::string>& hosts) override;
  Event wait(double seconds) override;
  std::int64_t step() override;
  bool ranks_run() override;
  void forget() override;
  void tell(const std::string& line) override;

 private:
  /// A process that asks one host.
  struct Question {
    Answer answer;
    std::string command;
    double began = 0;   ///< now() at which it was asked
    bool done = false;  ///< `answer` is final
    bool late = false;  ///< its agent did not end before the limit
    pid_t pid = 0;      ///< 0: it has not begun, none is needed, or it has ended
    int pipe = -1;      ///< its output; -1: closed
    std::string text = {};
  };

  void ask(const std::vector<std::string>& hosts, const std::string& command);
  void advance();
  bool put(Question& question);
  void read(Question& question);
  /// Ends the late questions that are answered or too old.
  void clear_late();
  void finish(Question& question);
  void read_signals(Event& event);
  void reap(Event& event);
  void find_segments();
  void end_questions();

  const Command command_;
  const std::string id_;               ///< LOCKSTEP_SUPERVISOR
  StepFiles former_steps_;             ///< when mpirun was started: those of the start before
  std::string run_;                    ///< the folder of the run; empty: not known yet
  std::map<std::string, bool> local_;  ///< by host: it is this one
  std::set<std::string> unasked_;      ///< hosts that were not asked yet
  const int messages_;                 ///< a file in memory: those of mpirun itself
  int signals_ = -1;                   ///< a descriptor of those that are blocked
  pid_t mpirun_ = 0;                      ///< 0: it does not run
  std::set<std::string> segments_;        ///< shared memory of Open MPI: patterns of its files
  double next_look_ = 0, last_look_ = 0;  ///< for segments_
  std::vector<Question> questions_;
  std::vector<Question> late_;  ///< former ones, whose answers tell how long a host needs
  double limit_;
  bool asked_ = false;  ///< a question without its answers
  bool ended_ = false;  ///< a start has ended whose remains are on the hosts
  bool was_stopped_ = false;  ///< mpirun, by a signal
  bool told_ = false;   ///< that hosts cannot be asked
  bool has_local_ranks_ = false, ranks_run_ = false;
  double next_look_at_ranks_ = 0;
};

}  // namespace lockstep
