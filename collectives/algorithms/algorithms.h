// The registry of all-reduce algorithms.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "collectives/schedule.h"

namespace lockstep {

struct AlgorithmEntry {
  static constexpr std::string_view kind = "all-reduce algorithm";
  std::string_view name;
  std::string_view about;
  Algorithm algorithm;
  bool (*canonical)(int size);  ///< adds in the canonical order on `size` ranks
};

std::span<const AlgorithmEntry> algorithms();

/// The algorithms that are canonical on `size` ranks, by ascending cost() of the all-reduces of all
/// `buckets`.
std::vector<const AlgorithmEntry*> algorithms_by_cost(int size, std::span<const Range> buckets,
                                                      const Link& link);

}  // namespace lockstep
