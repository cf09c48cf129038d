// Other processes of this host, as /proc describes them.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class Condition : int {
  stopped,  ///< by a signal (SIGSTOP, a terminal's ^Z); it runs on only after SIGCONT
  traced,   ///< held by a debugger
  runs,     ///< or sleeps, or its state is unknown
  gone,     ///< ended, perhaps not yet reaped by its parent
};

/// The start of process `pid` in clock ticks since boot. It distinguishes the process from a later
/// one with the same number. 0 if unknown. Local, never throws.
std::uint64_t start_time_of(int pid);
/// Seconds since its start; 0 if unknown.
double age_of(int pid);
/// The name of its program; the kernel keeps 15 letters. Empty if unknown.
std::string program_of(int pid);
/// Its parent, or the process that adopted it; 0 if unknown.
int parent_of(int pid);

/// The space in which a process number is unique: a boot of one kernel, and a PID namespace in it.
/// Empty without a boot id, because the first namespace has the same name on all machines.
std::string process_space();

/// One process, observed through one open file. So a lack of descriptors or a new process with the
/// same number never looks like its end. One thread at a time.
class Process {
 public:
  /// `start_time`: of the process that is meant; 0: any process with this number.
  Process(int pid, std::uint64_t start_time);
  ~Process();
  Process& operator=(Process&&) = delete;  ///< neither copied nor moved

  Condition condition();
  int pid() const { return pid_; }

 private:
  int pid_;
  std::uint64_t start_time_;
  int file_;  ///< /proc/PID/stat; -1: not opened yet
};

}  // namespace lockstep
