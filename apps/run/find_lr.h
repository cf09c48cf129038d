// A learning-rate range test: training with a rate that rises from step to step, without a run.
// Source: L. N. Smith, Cyclical Learning Rates for Training Neural Networks, 2015
// (arXiv:1506.01186); the exponential rise and the smoothed loss are those of fastai's lr_find.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "apps/run/training_loop.h"

namespace lockstep {

/// The rates and losses of the test. Every rank computes the same.
class RangeTest {
 public:
  /// `steps`: at least 2.
  explicit RangeTest(std::int64_t steps) : steps_(steps) {}

  struct Point {
    double rate = 0;      ///< as --lr has it
    double loss = 0;      ///< of the step's batch, before its update
    double smoothed = 0;  ///< moving average over about a twentieth of the steps
  };

  /// The rate of step number `step`: it rises exponentially from
  /// RangeTestOptions::kLowest to kHighest.
  double rate(std::int64_t step) const;
  /// The loss of the next step. Returns whether the test goes on: it ends after the last step, and
  /// when the loss is not finite or the smoothed one is four times the lowest.
  bool add(double loss);
  const std::vector<Point>& points() const { return points_; }
  bool diverged() const { return diverged_; }
  /// The point with the lowest smoothed loss; nothing: it never fell by a percent.
  std::optional<Point> lowest() const;
  /// A tenth of its rate, with two digits; nothing: there is none.
  std::optional<double> suggestion() const;

 private:
  std::int64_t steps_;
  double average_ = 0, weight_ = 0;
  bool diverged_ = false;
  std::vector<Point> points_;
};

/// Collective, instead of run_training_loop(). Prints a table and the suggested rate on rank 0, and
/// replaces options.find_lr.file if there is one. Throws AgreedError if the test is asked to stop,
/// or if the file cannot be written.
void find_learning_rate(const LoopParts& parts);

}  // namespace lockstep
