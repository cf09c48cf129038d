// StateSchedule: the steps after which the hosts keep the state of a run in memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep {

/// All ranks plan with the same values, so that all choose the same steps. Times are now_seconds().
class StateSchedule {
 public:
  /// Seconds between two states, or one step if that is longer: at an end without warning the steps
  /// since the last one are lost.
  static constexpr double kShortest = 0.2, kLongest = 1;
  /// Share of the time between these: the measured cost of the states. Cold caches and ranks that
  /// wait cost as much again, and both together may cost a hundredth.
  static constexpr double kShare = 0.005;

  /// Steps begin after `done`. The first state is due after the next one.
  void begin(std::int64_t done, double now) {
    planned_ = done;
    next_ = done + 1;
    time_ = now;
  }
  bool is_due(std::int64_t done) const { return done == next_; }
  /// Seconds of a step since the last plan. `done` is above that of the plan.
  double step_seconds(std::int64_t done, double now) const {
    return (now - time_) / (done - planned_);
  }
  /// After step `done`, when a state was due. `cost`: seconds that a state takes from the steps.
  /// `step_seconds`: of a step.
  void plan(std::int64_t done, double now, double cost, double step_seconds) {
    const double interval = std::clamp(cost / kShare, kShortest, kLongest);
    planned_ = done;
    next_ = done + std::max<std::int64_t>(1, std::floor(interval / std::max(step_seconds, 1e-6)));
    time_ = now;
  }

 private:
  std::int64_t planned_ = 0, next_ = 0;
  double time_ = 0;  ///< of the last plan
};

}  // namespace lockstep
