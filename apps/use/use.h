// The programs that use a trained network: evaluate, classify and export_model. A training program
// for models of its own is these programs too (apps/train/train.h).
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// The program that runs: one of the three, or a training program that does its work.
struct UseProgram {
  std::string name;  ///< in errors and in the help: "evaluate", "train_leaves evaluate"
  /// Is called before the command line is read, perhaps twice, to register models and data sets.
  /// Throws Error.
  std::function<void()> begin = [] {};
};

/// All of main(), which starts MPI: `argv[1]` is the first word after the program's name. Returns
/// the exit code, the same on all ranks. An error is one line on stderr from one rank; they never
/// throw. On the main thread.
int evaluate_main(int argc, char** argv, const UseProgram& program);
int classify_main(int argc, char** argv, const UseProgram& program);
int export_model_main(int argc, char** argv, const UseProgram& program);

}  // namespace lockstep
