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

/// Exit codes of every program of the project (docs/troubleshooting.md). lockstep_run starts a run
/// again after those that a new start can cure. Data, storage and requeue are those of sysexits.h.
enum ExitCode : int {
  kExitSuccess = 0,
  /// None of the other causes. The line on stderr names the reason.
  kExitFailure = 1,
  /// The command line or the config file is wrong.
  kExitUsage = 2,
  /// The data set's files are missing, damaged or changed.
  kExitData = 65,
  /// Loss or weights are NaN or Inf.
  kExitDiverged = 66,
  /// A rank died, or a host cannot be reached. The other ranks ended with it.
  kExitLost = 67,
  /// The ranks made no progress, or one of them was stopped by a signal.
  kExitHang = 68,
  /// Another run uses the folder, or another program has a file open.
  kExitInUse = 69,
  /// A file cannot be read or written now, or the disk fails.
  kExitStorage = 74,
  /// Stopped on request after a checkpoint: run again to continue.
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

/// Calls `body`. Its errors without a code of their own (kExitFailure) get `exit_code`.
template <class Body>
void with_exit_code(int exit_code, const Body& body) {
  try {
    body();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    if (error.exit_code() != kExitFailure) throw;
    throw Error(error.what(), exit_code);
  }
}

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
