// The command line and the environment of mpirun, for Open MPI 4.1 and 5.0.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/supervise/hosts.h"

namespace lockstep {

/// The name of this host for mpirun; it needs no network.
inline constexpr const char* kThisHost = "localhost";

/// The parts of the command line that all starts share.
struct Command {
  std::vector<std::string> words;   ///< the program and its arguments
  std::vector<std::string> mpirun;  ///< more options of mpirun
};

/// Physical cores that this process may use, at most those that the control groups grant.
int usable_cores();
/// The ranks without -np: one per GPU, if this build uses GPUs and there are any, else per core.
int default_ranks();
/// The most ranks that the program's own --shards allows; the largest int: it has none.
int most_ranks(const std::vector<std::string>& words);

/// The lines of a hostfile for exactly these ranks; empty: the shares have no names.
std::string hostfile_text(const std::vector<HostRange>& shares);
/// The words of mpirun for `ranks`. `hostfile`: a file with hostfile_text(); empty: none. `names`:
/// variables that ranks on other hosts need too.
std::vector<std::string> mpirun_words(const Command& command, int ranks,
                                      const std::string& hostfile,
                                      const std::set<std::string>& names);
/// Variables for mpirun that the user has not set: no binding unless the ranks fill the machine,
/// more ranks than cores, root, and no second of grace for ranks whose run has ended. Only on
/// kThisHost it replaces what the user has set: the names of networks, which may be down. `cores`:
/// usable_cores(). `fills`: these are all cores of the machine.
std::map<std::string, std::string> mpirun_environment(const std::vector<HostRange>& shares,
                                                      int cores, bool fills);
/// usable_cores() are all cores of this machine.
bool owns_machine();

/// The words that run `command` on `host`, by the agent that mpirun uses too: the variable
/// OMPI_MCA_plm_rsh_agent or PRTE_MCA_plm_ssh_agent, srun within a SLURM job, else ssh.
std::vector<std::string> remote_words(const std::string& host, const std::string& command);

/// "host node2 does not answer: REASON". The reason is the last line of its agent's `output`.
std::string silence_text(const std::string& host, const std::string& output);

/// Directs the messages of Open MPI 4's mpirun to `file`, in its environment and command line. They
/// stay apart from those of the ranks, so that mpirun need not be quiet: its boxes about a rank
/// that failed would follow each error of the program. Does nothing if the user has set
/// orte_execute_quiet. Open MPI 5 always prints its reasons.
void collect_messages(int file, std::map<std::string, std::string>& environment,
                      std::vector<std::string>& words);
/// The first 8 lines of the first box in `file` that is not about a rank that has ended; empty:
/// there is none. A box stands between two lines of dashes. Empties the file.
std::string take_reason(int file);

}  // namespace lockstep
