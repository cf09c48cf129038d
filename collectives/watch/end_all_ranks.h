// The end of a run that one rank decides.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Ends all ranks of the run from any thread, without waiting for another rank. Flushes the output
/// and calls MPI_Abort if MPI runs. The process ends after at most 3 s.
[[noreturn]] void end_all_ranks(int exit_code);

/// The same, after one line (or table) on stderr. The 3 s include the output, because its reader
/// may be gone.
[[noreturn]] void print_and_end_all_ranks(const std::string& line, int exit_code);

/// The same without MPI_Abort: ends only this process.
[[noreturn]] void print_and_exit(const std::string& line, int exit_code);

/// While it lives, print_and_end_all_ranks() and print_and_exit() call `record` with their line
/// after they have printed it, within the 3 s, on any thread. One lives at a time.
class OnFailure {
 public:
  explicit OnFailure(std::function<void(const std::string& line)> record);
  ~OnFailure();                                ///< waits for a call of `record`
  OnFailure& operator=(OnFailure&&) = delete;  ///< neither copied nor moved
};

}  // namespace lockstep
