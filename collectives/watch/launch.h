// Checks of the way in which this program was started. A launcher and an MPI with different
// start-up protocols start N runs of one rank each, which would train N models and overwrite each
// other's files.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

struct Interface;

/// Reads an environment variable; null if it is not set.
using Environment = std::function<const char*(const char* name)>;

/// The number of processes that a program is meant for.
enum class Start {
  ranks,   ///< several: one process in an allocation of several tasks is a mistake
  any,     ///< one is useful anywhere
  single,  ///< always one
};

constexpr const char* kOneProcess =
    "this program runs as one process, and several were started. Start it without mpirun or srun.";

/// The error about the way in which this process was started; empty if it is right. `size`: of
/// MPI_COMM_WORLD, or 0 before MPI_Init. Check before MPI_Init too, because an MPI without its
/// launcher may end the process there with a page of its own.
std::string launch_problem(const Environment& environment, int size, Start start = Start::ranks);

/// Opens /dev/null as each of standard input, output and error that is closed. The next file opened
/// would take its number, and lines would go into MPI's own pipes.
void hold_standard_files();

/// Calls `start`, which calls MPI_Init. Open MPI 4 then prints why it cannot start, even with the
/// variable orte_execute_quiet, which is meant for later boxes. Unsets the variable: no other
/// thread may read the environment at that time.
void with_start_errors(const std::function<void()>& start);

/// Whether all ranks of the run are on this host. False if the launcher does not tell.
bool on_one_host(const Environment& environment);

/// Variables for MPI_Init of Open MPI, without those that the user set. Ranks on one host use its
/// memory only: the search for networks takes a second in version 4, and version 5 warns about
/// networks that it cannot use. Ranks on several hosts use none of `interfaces` that connects this
/// host with its own containers or virtual machines, if others are left. These have the same
/// address on every host, so a rank would connect to its own host and wait for ever.
std::map<std::string, std::string> network_layers(const Environment& environment,
                                                  const std::vector<Interface>& interfaces);

/// Prevents the boxes of Open MPI 4 about a following MPI_Abort. (mpirun always prints two boxes
/// about a rank that exits with a non-zero code.) Returns false, without effect, for another MPI or
/// launcher, or without a launcher.
bool silence_abort(const Environment& environment);

/// Whether a launcher connects this process with other ranks.
bool has_launcher(const Environment& environment);

/// Whether this process prints errors: task 0 of its launcher, or each process if no variable
/// numbers them.
bool is_first_task(const Environment& environment);

/// mpirun of Open MPI 4 orders its daemon on each host to end, and waits for all answers. A host
/// that cannot be reached never answers, and mpirun stays until TCP gives up after 15 minutes. This
/// follows MPI_Abort, ranks that exit and a lost connection. Two SIGTERM within 5 s are the
/// documented way to end mpirun and its daemons without answers (the second Ctrl-C).
struct Launcher {
  int pid = 0;        ///< 0: no known launcher started this process
  bool main = false;  ///< mpirun, not its daemon on this host
  /// A daemon of PRRTE, which may serve other runs too.
  bool shared = false;
};

/// The nearest ancestor that is a launcher of Open MPI. SLURM's does not count, because srun gives
/// up an unreachable node by itself.
Launcher find_launcher();

/// Ends `launcher` after `delay` seconds if it still runs, with two SIGTERM, then SIGKILL. A
/// separate process does so, because the launcher may kill this one first. Does nothing if pid is
/// 0.
void end_later(const Launcher& launcher, double delay);

}  // namespace lockstep
