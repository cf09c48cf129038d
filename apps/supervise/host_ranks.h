// The ranks of a lockstep_run on a host: their processes, their files in memory, and what they
// leave behind. Functions work on this host; commands for a shell do the same on another one.
//
// All processes of a lockstep_run have its id in their environment, LOCKSTEP_SUPERVISOR=ID: mpirun,
// its agents and the ranks. The first rank of a host writes /dev/shm/lockstep-run-USER-*/step.ID
// (apps/record/state_memory.h). Files of other users are never read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr const char* kSupervisor = "LOCKSTEP_SUPERVISOR";

/// The last write and the text of each file: a number, a line end and the path of the run's folder.
using StepFiles =
    std::map<std::filesystem::path, std::pair<std::filesystem::file_time_type, std::string>>;
StepFiles step_files(const std::string& id);
/// The number at the beginning of `text`; -1: there is none.
std::int64_t step_in(std::string_view text);

/// The processes of this host with this id, except this process.
std::vector<int> processes_of(const std::string& id);
/// Those of them that a signal has stopped.
std::vector<int> stopped_of(const std::string& id);
/// Whether `pid` is a rank.
bool is_rank(int pid);
/// Patterns of the files in /dev/shm that Open MPI shares between the ranks of a host, if process
/// `pid` maps one.
std::set<std::string> segments_of(int pid);

/// After a start has ended: ends ranks that still run, and removes the shared memory of Open MPI,
/// which mpirun leaves behind if it is killed.
void clear_host(const std::string& id, std::set<std::string>& segments);
std::string clearing_command(const std::string& id, const std::set<std::string>& segments);

/// The line of stopped_command().
inline constexpr std::string_view kRankStopped = "a rank is stopped";
/// While ranks run: prints kRankStopped if a signal has stopped one.
std::string stopped_command(const std::string& id);
/// Prints the step files.
std::string steps_command(const std::string& id);

/// Removes the states in memory.
void forget_states(const std::string& id);
std::string forgetting_command(const std::string& id);

}  // namespace lockstep
