// The training program for models and data sets of your own. docs/library.md has examples.
#pragma once

#include <string>
#include <vector>

#include "net/model.h"
#include "src/data/dataset.h"

namespace lockstep {

/// A training program: all options of train_images, with your models and data sets beside those of
/// Lockstep.
struct TrainProgram {
  /// In errors, and in the names of runs: "train_leaves".
  std::string name;
  /// --model and --dataset by default. An empty model is that of the data set; for photos it is
  /// chosen as train_images does.
  std::string model = {};
  std::string dataset = "folder";
  /// Their names must differ from those in --list. `build` and `open` are called on all ranks, by
  /// one thread each, and must return the same there.
  std::vector<ModelEntry> models = {};
  std::vector<DatasetEntry> datasets = {};
};

/// All of main(): starts MPI, reads the command line and the config file, trains, evaluates and
/// writes checkpoints. If the first word is "evaluate", "classify" or "export", it does the work of
/// evaluate, classify or export_model instead, with the other words. Returns the exit code, the
/// same on all ranks: 0 complete, 1 error, 2 wrong command line, 75 stopped after a checkpoint. An
/// error is one line on stderr from one rank; it never throws. Call it once, on the main thread,
/// before other threads exist.
int train_main(int argc, char** argv, const TrainProgram& program);

}  // namespace lockstep
