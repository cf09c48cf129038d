// Errors that a person can act on: one line with the cause and the cure.
//
// Everything below apps/ throws Error; main() catches, prints the line once and ends all ranks. The
// overloads of check() for a library's return codes stand where that library is included
// (collectives/comm.h, src/hdf5.cc, ...), so that this header needs none of them.
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep {

/// Exit codes of every program of the project.
enum ExitCode : int {
  kExitSuccess = 0,
  kExitFailure = 1,   ///< something went wrong; the line on stderr says what
  kExitUsage = 2,     ///< the command line or the config file is wrong
  kExitRequeue = 75,  ///< stopped on request after a checkpoint: run again to continue (EX_TEMPFAIL
                      ///< of sysexits.h)
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

/// Throws Error with the formatted line.
template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error (kExitUsage) with the formatted line: the user asked for something that cannot be.
template <class... Args>
[[noreturn]] void fail_usage(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...), kExitUsage);
}

/// fail() unless `ok`.
template <class... Args>
void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) fail(text, std::forward<Args>(args)...);
}

/// A broken promise inside the program: throws Error that names the place. Never the user's fault.
inline void expect(bool ok, std::string_view what,
                   std::source_location at = std::source_location::current()) {
  if (!ok) fail("internal error: {} ({}:{})", what, at.file_name(), at.line());
}

}  // namespace lockstep
