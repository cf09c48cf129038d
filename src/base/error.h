// Errors that a person can act on: one line with the cause and the cure.
//
// Everything below apps/ throws Error; main() catches, prints the line once and ends all ranks.
// This header is free of fmt, for compilers of kernels read it too; the verbs that format a line
// are in src/base/check.h.
#pragma once

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lockstep {

/// Exit codes of every program of the project.
enum ExitCode : int {
  kExitSuccess = 0,
  /// Something went wrong; the line on stderr says what.
  kExitFailure = 1,
  /// The command line or the config file is wrong.
  kExitUsage = 2,
  /// Stopped on request after a checkpoint: run again to continue (EX_TEMPFAIL of sysexits.h).
  kExitRequeue = 75,
};

/// what() is the whole line a user reads, without a program name in front and without a newline.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, int exit_code = kExitFailure)
      : std::runtime_error(message), exit_code_(exit_code) {}
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

/// Throws Error that names the place: a promise inside the program was broken.
[[noreturn]] void fail_internally(std::string_view what, std::source_location at);

/// A promise inside the program, never the user's fault: throws Error unless `ok`.
inline void expect(bool ok, std::string_view what,
                   std::source_location at = std::source_location::current()) {
  if (!ok) fail_internally(what, at);
}

}  // namespace lockstep
