// The options of a training run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/run/checkpoint_options.h"
#include "apps/run/report_options.h"
#include "apps/step/step_options.h"

namespace lockstep {

struct Options : StepOptions {
  std::string program;  ///< "train_cifar"
  ReportOptions reports;
  CheckpointOptions checkpoints;

  bool check = false;
  bool list = false;
  bool summary = false;

  std::string text;  ///< all of the above as lines "name=value", which --config reads back
  /// The options that shape the weights, and the default of each as it stands in `text`.
  std::map<std::string, std::string> shaping;
  std::vector<std::string> notes;  ///< options that do nothing in this run, one line each
};

}  // namespace lockstep
