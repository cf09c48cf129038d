// Who chooses among the plans that libraries offer: the tuning, where it knows the work; a race,
// where tuning is under way; else the first library that can do it, by its own heuristic.
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

  /// The libraries must outlive what is planned. `device`: its name, and what else the choice
  /// depends on.
  Planner(std::vector<const Library*> libraries, const std::string& device);

  /// Null where no library can do it. Throws Error where the tuning names a plan that none offers.
  std::shared_ptr<const Plan> choose(const Convolution& work);

  Tuning& tuning() { return tuning_; }
  /// From now on work that the tuning does not know is raced for, and noted; an empty one ends
  /// that.
  void set_race(Race race) { race_ = std::move(race); }

 private:
  std::vector<const Library*> libraries_;
  Tuning tuning_;
  Race race_;
};

}  // namespace lockstep::cuda
