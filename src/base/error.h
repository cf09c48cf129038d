// Errors that a user can act on: one line with the reason and the fix.
//
// Everything below apps/ throws Error; main() prints the line once and ends all ranks. This header
// is free of fmt because nvcc reads it too. Functions that format a line are in src/base/check.h.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// Exit codes of every program of the project.
enum ExitCode : int {
  kExitSuccess = 0,
  /// The line on stderr names the reason.
  kExitFailure = 1,
  /// The command line or the config file is wrong.
  kExitUsage = 2,
  /// Stopped on request after a checkpoint: run again to continue (EX_TEMPFAIL of sysexits.h).
  kExitRequeue = 75,
};

/// what() is the whole line that a user reads, without the program's name and a newline.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = kExitFailure)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Memory is short. Callers may try to do with less.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// "comm.cc:178". The folder is left out because it belongs to the machine that built the program.
std::string place_of(std::source_location at);

/// Throws Error with the place: the program broke a promise of its own.
[[noreturn]] void fail_internally(std::string_view what, std::source_location at);

/// Throws Error unless `ok`, a promise inside the program. A failure is never the user's fault.
inline void expect(bool ok, std::string_view what,
                   std::source_location at = std::source_location::current()) {
  if (!ok) fail_internally(what, at);
}

}  // namespace lockstep
