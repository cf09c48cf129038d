// At distance d = 1, 2, 4, .. neighbouring blocks of d ranks, whose ranks all have the sum of their
// block, exchange these sums. The log P rounds of the whole bucket are half as many as in a tree.
// For short buckets, whose time is latency.
//
//              d = 1        d = 2
//   rank 0   <-> 1        <-> 2         each adds in the canonical order, for any P
//   rank 1   <-> 0        <-  2
//   rank 2                <-> 0, -> 1   a block with fewer than d ranks sends to several
//
// The bucket is sent while its partner's arrives. The addition therefore follows both.
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {

Schedule recursive_doubling(int rank, int size, std::int64_t count) {
  Schedule schedule{count, size > 1 ? count : 0, {}};
  const Range all{0, count}, theirs{count, count};
  for (int distance = 1; distance < size; distance *= 2) {
    Round& round = schedule.rounds.emplace_back();
    const int left = rank / (2 * distance) * 2 * distance, right = left + distance;
    const int partners = std::min(distance, size - right);  // of the right block
    if (partners <= 0 || count == 0) continue;
    const bool in_left = rank < right;
    const int index = rank - (in_left ? left : right);
    if (in_left && index < partners) round.push_back({Verb::send, right + index, all});
    for (int to = index; !in_left && to < distance; to += partners)
      round.push_back({Verb::send, left + to, all});
    const int from = in_left ? right + index % partners : left + index;
    round.push_back({Verb::copy, from, theirs});
    round.push_back({Verb::add, rank, all, count});
  }
  return schedule;
}

}  // namespace lockstep
