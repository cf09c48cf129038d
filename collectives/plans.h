// The menu of all-reduce plans.
#pragma once

#include <span>
#include <string_view>

#include "collectives/schedule.h"

namespace lockstep {

struct PlanEntry {
  std::string_view name;
  std::string_view about;
  Plan plan;
  bool (*canonical)(int size);  ///< sums in the canonical order on so many ranks
};

std::span<const PlanEntry> plans();

}  // namespace lockstep
