// Other processes of this host, as the kernel tells of them in /proc.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

enum class Condition : int {
  stopped,  ///< by a signal (SIGSTOP, a terminal's ^Z): somebody must continue it
  traced,   ///< held by a debugger
  runs,     ///< or sleeps, or cannot be asked about
  gone,     ///< ended, though perhaps not yet collected by its parent
};

/// When process `pid` was started, in clock ticks since boot: tells it from a later one of the same
/// number. 0 where that cannot be known. Local, never throws.
std::uint64_t start_time_of(int pid);
/// Seconds since then; 0 where that cannot be known.
double age_of(int pid);
/// The name of its program, as far as the kernel keeps it (15 letters); empty where it cannot be
/// known.
std::string program_of(int pid);
/// The process that started it, or took it over; 0 if that cannot be known.
int parent_of(int pid);

/// One process, asked about again and again through one open file: neither a lack of descriptors
/// nor a new process of the same number is taken for an end. One thread at a time.
class Process {
 public:
  /// `start_time`: of the process that is meant; 0: whichever has the number.
  Process(int pid, std::uint64_t start_time);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  Condition condition();
  int pid() const { return pid_; }

 private:
  int pid_;
  std::uint64_t start_time_;
  int file_ = -1;  ///< /proc/PID/stat, once it could be opened
};

}  // namespace lockstep
