// Every number that a run logs. A new one needs a row in metrics.cc and the place that measures it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/step/straggler.h"
#include "apps/step/training_step.h"
#include "net/loss.h"
#include "src/base/clock.h"

namespace lockstep {

struct Metric {
  std::string name;  ///< in metrics.jsonl, and with the kind in front in TensorBoard
  double value = 0;
  std::string text = {};  ///< in the line on stdout; empty: it is not there
  bool scalar = true;     ///< TensorBoard shows it
};
using Metrics = std::vector<Metric>;

/// The steps since the last report, as the training loop measured them.
struct StepReport {
  std::int64_t step = 0;  ///< steps done
  std::int64_t steps = 0, samples = 0;
  double seconds = 0;
  StepTimes times;    ///< of these steps
  StepTotals totals;  ///< of the last step
  double epoch = 0, learning_rate = 0;
  bool scaled = false;                 ///< the loss has a dynamic scale
  std::optional<Straggler> straggler;  ///< none if there is none, or if ranks were not compared

  double images_per_s() const { return static_cast<double>(samples) / seconds; }
};

/// The steps of an epoch since this start of the run.
struct EpochReport {
  std::int64_t number = 0;  ///< from 1
  double epochs = 0;        ///< of the whole run
  std::int64_t steps = 0;
  double loss = 0, accuracy = 0;  ///< sums over the steps
  double begin = now_seconds();

  void add(const StepTotals& totals) {
    ++steps;
    loss += totals.cross_entropy;
    accuracy += totals.top1_share;
  }
};

/// `long_lines`: the line may take as much as it likes.
Metrics metrics_of(const StepReport& report, bool long_lines);
Metrics metrics_of(const Score& score, double epoch);
Metrics metrics_of(const EpochReport& report, const Score& score);

/// The parts of the line on stdout.
std::vector<std::string> texts_of(const Metrics& metrics);

}  // namespace lockstep
