// The menu of all-reduce algorithms.
#pragma once

#include <span>
#include <string_view>

#include "collectives/schedule.h"

namespace lockstep {

struct AlgorithmEntry {
  static constexpr std::string_view kind = "all-reduce algorithm";
  std::string_view name;
  std::string_view about;
  Algorithm algorithm;
  bool (*canonical)(int size);  ///< sums in the canonical order on so many ranks
};

std::span<const AlgorithmEntry> algorithms();

/// Of the algorithms that are canonical on `size` ranks, the one whose all-reduces of all `buckets`
/// take the least time by cost().
const AlgorithmEntry& cheapest_algorithm(int size, std::span<const Range> buckets,
                                         const Link& link);

}  // namespace lockstep
