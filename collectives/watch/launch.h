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

/// While it lives, around MPI_Init, Open MPI 4 prints why it cannot start, even with the variable
/// orte_execute_quiet, which is meant for later boxes. The constructor unsets the variable: no
/// other thread may read the environment at that time.
class VerboseStart {
 public:
  VerboseStart();
  ~VerboseStart();
  VerboseStart& operator=(VerboseStart&&) = delete;  ///< neither copied nor moved

 private:
  std::string quiet_;  ///< value of the variable; empty: not set
};

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

}  // namespace lockstep
