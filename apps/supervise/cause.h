// Cause: why a start of the ranks ended, from the exit code of mpirun. It decides whether a new
// start can help.
#pragma once

#include <string>

namespace lockstep {

/// The end of mpirun.
struct End {
  int code = 0;           ///< its exit code, or 128 + the signal that ended a rank or mpirun
  bool launcher = false;  ///< the signal ended mpirun itself
};

struct Cause {
  bool restarts = false;  ///< a new start can cure it
  std::string what;       ///< "a rank was killed by SIGKILL"; empty: no failure
};

/// By the table in src/base/run_end.h. Any other code is an unknown failure, which a new
/// start may cure. mpirun returns the code of the first rank that failed.
Cause cause_of(const End& end);

}  // namespace lockstep
