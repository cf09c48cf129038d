// RunEnd: what an end of the ranks means for their run. One table for the training programs, which
// keep or remove their states in memory by it, and for lockstep_run, which decides by it whether it
// starts the ranks again. tests/apps/ends.sh walks the ends that docs/runs.md lists.
#pragma once

#include <string_view>

namespace lockstep {

struct RunEnd {
  int code;           ///< exit code of a rank or of mpirun; -1: any other, also of a signal
  bool starts_again;  ///< a new start may cure it
  /// The same command resumes the run, perhaps from states in memory, which stay for it.
  bool keeps_states;
  std::string_view what;  ///< "the model diverged"; empty: no failure, or unknown
};

RunEnd end_of(int code);

}  // namespace lockstep
