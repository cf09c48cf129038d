// What an epoch's line says: the steps of an epoch as far as this start of the run made them.
#pragma once

#include <cmath>
#include <cstdint>

#include "apps/step/run_plan.h"
#include "apps/step/step_header.h"
#include "src/base/clock.h"

namespace lockstep {

class EpochRecord {
 public:
  /// Begins anew.
  void begin() { *this = {}; }
  void add(const StepTotals& totals) {
    ++steps_;
    loss_ += totals.cross_entropy;
    accuracy_ += totals.top1_share;
  }
  /// Means over the steps; nothing was trained where steps() is 0.
  std::int64_t steps() const { return steps_; }
  double loss() const { return loss_ / static_cast<double>(steps_); }
  double accuracy() const { return accuracy_ / static_cast<double>(steps_); }
  double seconds() const { return now_seconds() - begin_; }

 private:
  std::int64_t steps_ = 0;
  double loss_ = 0, accuracy_ = 0, begin_ = now_seconds();
};

/// The epoch that ends with step `done`, from 1: with it the run has seen the last of its samples,
/// or is at its end. 0: none does.
inline std::int64_t epoch_that_ends(const RunPlan& plan, std::int64_t done) {
  const double before = plan.epoch_at(done - 1), after = plan.epoch_at(done);
  if (std::floor(after) > std::floor(before)) return static_cast<std::int64_t>(std::floor(after));
  return done == plan.steps ? static_cast<std::int64_t>(std::ceil(after)) : 0;
}

}  // namespace lockstep
