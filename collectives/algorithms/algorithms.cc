#include "collectives/algorithms/algorithms.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace lockstep {

// Each algorithm has its own file. A new one adds its name here and a row below.
using MakeSchedule = Schedule(int rank, int size, std::int64_t count);
MakeSchedule tree, recursive_doubling, halving_doubling, double_tree, ring, to_one;

namespace {

bool always(int) { return true; }
bool powers_of_two(int size) { return std::has_single_bit(static_cast<unsigned>(size)); }
bool up_to_two(int size) { return size <= 2; }

constexpr AlgorithmEntry kAlgorithms[] = {
    {"tree", "binomial tree up and down, in chunks: for long buckets and odd numbers of ranks",
     tree, always},
    {"recursive_doubling",
     "whole buckets between nearest, then farther neighbours: for short buckets",
     recursive_doubling, always},
    {"halving_doubling", "reduce-scatter and all-gather between nearest, then farther neighbours",
     halving_doubling, powers_of_two},
    {"double_tree", "two binary trees, each with half of a bucket, in chunks: for long buckets",
     double_tree, up_to_two},
    {"ring", "reduce-scatter and all-gather around a ring: for long buckets on few ranks", ring,
     up_to_two},
    {"to_one", "all ranks send to rank 0, which adds and sends the sum back", to_one, always},
};

}  // namespace

std::span<const AlgorithmEntry> algorithms() { return kAlgorithms; }

std::vector<const AlgorithmEntry*> algorithms_by_cost(int size, std::span<const Range> buckets,
                                                      const Link& link) {
  std::vector<std::pair<double, const AlgorithmEntry*>> costs;
  for (const AlgorithmEntry& entry : kAlgorithms) {
    if (!entry.canonical(size)) continue;
    double seconds = 0;
    for (const Range& bucket : buckets) seconds += cost(entry.algorithm, size, bucket.count, link);
    costs.emplace_back(seconds, &entry);
  }
  // Stable, so that algorithms of the same cost have the order of the table.
  std::stable_sort(costs.begin(), costs.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const AlgorithmEntry*> entries;
  for (const auto& [seconds, entry] : costs) entries.push_back(entry);
  return entries;
}

}  // namespace lockstep
