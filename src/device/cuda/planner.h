// The choice among the plans of libraries. If the tuning contains the work, its plan is used. Else,
// while tuning is on, a race decides, also if no library offers the tuning's plan any more. Else
// the first library that supports the work decides, by its own heuristic.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/device/cuda/race.h"
#include "src/device/tuning.h"

namespace lockstep::cuda {

class Planner {
 public:
  /// The libraries must outlive the plans. `device`: its name, and settings that affect the choice.
  Planner(std::vector<const Library*> libraries, const std::string& device);

  /// null: no library supports the work. Throws Error if no library offers the tuning's plan and
  /// there is no race.
  std::shared_ptr<const Plan> choose(const Convolution& work);

  Tuning& tuning() { return tuning_; }
  /// From now on `race` decides about work that the tuning lacks or whose plan is gone, and the
  /// tuning gets the result. When its time is over, the first library's heuristic decides, and the
  /// tuning marks the work with kUntimed. null: ends this.
  void set_race(Race* race) { race_ = race; }

 private:
  std::vector<const Library*> libraries_;
  Tuning tuning_;
  Race* race_ = nullptr;
};

}  // namespace lockstep::cuda
