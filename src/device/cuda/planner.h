// The choice among the plans of libraries: the first library that supports the work decides, by its
// own heuristic.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

class Planner {
 public:
  /// The libraries must outlive the plans.
  explicit Planner(std::vector<const Library*> libraries) : libraries_(std::move(libraries)) {}

  /// null: no library supports the work.
  std::shared_ptr<const Plan> choose(const Convolution& work) const;

 private:
  std::vector<const Library*> libraries_;
};

}  // namespace lockstep::cuda
