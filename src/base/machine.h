// The machine: cores and memory that this process may use, and their use so far.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// The cores that this process may run on, ascending, in any number: the affinity mask that it
/// started with, or the places of OpenMP if OpenMP binds threads.
std::vector<int> allowed_cores();
/// Lets the calling thread run on all allowed cores again. OMP_PROC_BIND binds the first thread of
/// every rank to the same core.
void leave_place();
/// The cores' time that control groups (v1 and v2) grant to this process and its neighbours, as
/// containers and batch systems set it. Infinity without a limit.
double core_quota(const std::string& groups = "/proc/self/cgroup",
                  const std::string& root = "/sys/fs/cgroup");
/// "0-3,8"
std::string core_list(const std::vector<int>& cores);
std::string host_name();
/// Bytes of this process's own memory: anonymous and shared-memory pages, no mapped files.
std::size_t own_memory_bytes();
/// Bytes that control groups (v1 and v2) still let this process and its neighbours allocate. Cached
/// files count as free. Infinity without a limit.
double memory_quota(const std::string& groups = "/proc/self/cgroup",
                    const std::string& root = "/sys/fs/cgroup");
/// Bytes that the host can still allocate without swapping, within memory_quota(); the largest
/// number if both are unknown.
std::size_t available_memory_bytes();
/// Processes of this host that the kernel has killed because memory was short; 0 if unknown.
double memory_kills();
/// Whether the variable `name` of the environment is "on" or not set. Throws the usage error unless
/// it is "on" or "off".
bool switched_on(const char* name);
/// "0.1.0 (3f2a...)": version and source revision of this build.
std::string version_name();
/// "GCC 12.2.0".
std::string compiler_name();
/// Both: "0.1.0 (3f2a...), GCC 12.2.0".
std::string build_name();
/// A checksum of this program's file. It differs between builds, even of the same revision. Throws
/// Error.
std::string program_checksum();

}  // namespace lockstep
