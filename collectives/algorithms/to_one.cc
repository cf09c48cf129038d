// Rank 0 receives the buckets of all others one after another, adds them in the canonical order and
// sends the sum back ("average on one device"). P rounds at the speed of one rank's network. Only
// for comparisons.
//
// A finished subtree is one partial sum. When shard r arrives there are as many of them as r has
// bits set. Partial sum number 0 is the bucket, the others are scratch.
#include <algorithm>
#include <bit>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {

Schedule to_one(int rank, int size, std::int64_t count) {
  const auto rounds = static_cast<std::size_t>(size > 1 ? size : 0);
  Schedule schedule{count, 0, std::vector<Round>(rounds)};
  if (size == 1 || count == 0) return schedule;
  const Range all{0, count};
  if (rank > 0) {
    schedule.rounds[static_cast<std::size_t>(rank) - 1] = {{Verb::send, 0, all}};
    schedule.rounds.back() = {{Verb::copy, 0, all}};
    return schedule;
  }

  int sums = 1;  // partial sums that wait for their right neighbour; the first is rank 0's own
  const auto place = [&](int sum) { return Range{sum * count, count}; };
  for (int shard = 1; shard < size; ++shard) {
    Round& round = schedule.rounds[static_cast<std::size_t>(shard) - 1];
    int merges = std::countr_one(static_cast<unsigned>(shard));  // subtrees that it completes
    if (merges > 0) {
      round.push_back({Verb::add, shard, place(sums - 1)});
      --merges;
    } else {
      round.push_back({Verb::copy, shard, place(sums++)});
      schedule.scratch = std::max(schedule.scratch, (sums - 1) * count);
    }
    if (shard == size - 1) merges = sums - 1;  // no right neighbours follow the last shard
    for (; merges > 0; --merges, --sums)
      round.push_back({Verb::add, 0, place(sums - 2), place(sums - 1).begin});
  }
  for (int peer = 1; peer < size; ++peer) schedule.rounds.back().push_back({Verb::send, peer, all});
  return schedule;
}

}  // namespace lockstep
