// What this process may use of the machine, and what it does use.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

/// The cores that this process may run on, ascending, whatever their number: the affinity mask that
/// it started with, or the places of OpenMP where that binds threads.
std::vector<int> allowed_cores();
/// Lets the calling thread run on all of them again where OMP_PROC_BIND has bound it to one: it
/// binds the first thread of every rank to the same.
void leave_place();
/// How many cores' time the control groups (v1 and v2) leave to this process and those that share
/// them, as containers and batch systems set it; infinity without a limit.
double core_quota(const std::string& groups = "/proc/self/cgroup",
                  const std::string& root = "/sys/fs/cgroup");
/// "0-3,8"
std::string core_list(const std::vector<int>& cores);
std::string host_name();
/// Bytes of memory that this process holds itself now (anonymous and shared-memory pages, not
/// mapped files).
std::size_t own_memory_bytes();
/// How many more bytes the control groups (v1 and v2) let this process and those that share them
/// take, with what they hold of files given up; infinity without a limit.
double memory_quota(const std::string& groups = "/proc/self/cgroup",
                    const std::string& root = "/sys/fs/cgroup");
/// Bytes that the host could still give out without swapping, within memory_quota(); the largest
/// number where neither says.
std::size_t available_memory_bytes();
/// "0.1.0 (3f2a...), GCC 12.2.0": version, source revision and compiler of this build.
std::string build_name();
/// A checksum of this program's file: other builds, even of the same revision, have another. Throws
/// Error.
std::string program_checksum();

}  // namespace lockstep
