// The choice among the plans of libraries. If the tuning contains the work, its plan is used. Else,
// while tuning is on, a race decides. Else the first library that supports the work decides, by its
// own heuristic.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cuda/plan.h"
#include "src/device/tuning.h"

namespace lockstep::cuda {

class Planner {
 public:
  /// The index of the fastest of `plans`, of which there are at least two.
  using Race = std::function<std::size_t(const Convolution& work, const Plans& plans)>;

  /// The libraries must outlive the plans. `device`: its name, and settings that affect the choice.
  Planner(std::vector<const Library*> libraries, const std::string& device);

  /// null: no library supports the work. Throws Error if no library offers the tuning's plan.
  std::shared_ptr<const Plan> choose(const Convolution& work);

  Tuning& tuning() { return tuning_; }
  /// From now on `race` decides about work that the tuning lacks, and the tuning gets the result.
  /// Empty: ends this.
  void set_race(Race race) { race_ = std::move(race); }

 private:
  std::vector<const Library*> libraries_;
  Tuning tuning_;
  Race race_;
};

/// A Planner::Race by time, on random numbers in memory of `device`. Blocks until `stream` is done.
/// A plan that fails loses.
std::size_t race(Device& device, Stream& stream, const Convolution& work, const Plans& plans);

}  // namespace lockstep::cuda
