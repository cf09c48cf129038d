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

/// Of the plans that are canonical on `size` ranks, the one whose all-reduces of all `buckets` take
/// the least time by cost().
const PlanEntry& cheapest_plan(int size, std::span<const Range> buckets, const Link& link);

}  // namespace lockstep
