// Reduce-scatter by recursive halving, then all-gather by recursive doubling: 2 log P rounds, in
// which each rank sends 2 (P-1)/P of the bucket. Source: R. Rabenseifner, "Optimization of
// collective reduction operations", 2004.
//
//              d = 1         d = 2         d = 2         d = 1
//   rank 0   [++++----]    [++--    ]    [==..    ]    [====....]     + the partner's half is added
//   rank 1   [----++++]    [    ++--]    [    ==..]    [....====]     - sent to the partner
//   rank 2   [++++----]    [--++    ]    [..==    ]    [====....]     = the whole sum, sent too
//   rank 3   [----++++]    [    --++]    [    ..==]    [....====]     . copied from the partner
//
// The partner is rank XOR d. Nearest neighbours exchange first, while the parts are largest. This
// is the canonical order for powers of two. For other numbers, let q be the largest power of two:
// ranks from q on first send their bucket to rank - q, and get the sum back at the end. Their
// rounds in between are empty, because all ranks have the same number of rounds.
#include <bit>
#include <initializer_list>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {

Schedule halving_doubling(int rank, int size, std::int64_t count) {
  const int inner = static_cast<int>(std::bit_floor(static_cast<unsigned>(size)));
  const int outer = size - inner;
  Schedule schedule{count, 0, {}};
  const auto round = [&](std::initializer_list<Action> actions) {
    Round& added = schedule.rounds.emplace_back();
    for (const Action& action : actions) {
      if (action.range.count > 0) added.push_back(action);
    }
  };
  const Range all{0, count};
  const bool folded = rank >= inner, keeper = rank < outer;

  if (outer > 0) {
    if (folded)
      round({{Verb::send, rank - inner, all}});
    else if (keeper)
      round({{Verb::add, rank + inner, all}});
    else
      round({});
  }

  struct Halves {
    Range keep, send;
  };
  std::vector<Halves> cuts;  // at distance 1, 2, 4, ..
  Range mine = all;
  for (int distance = 1; distance < inner; distance *= 2) {
    const int half = (rank & distance) != 0 ? 1 : 0;
    cuts.push_back({part_of(mine, half, 2), part_of(mine, 1 - half, 2)});
    mine = cuts.back().keep;
    if (folded)
      round({});
    else
      round({{Verb::send, rank ^ distance, cuts.back().send}, {Verb::add, rank ^ distance, mine}});
  }
  for (int distance = inner / 2; distance > 0; distance /= 2) {
    if (folded)
      round({});
    else
      round({{Verb::send, rank ^ distance, cuts.back().keep},
             {Verb::copy, rank ^ distance, cuts.back().send}});
    cuts.pop_back();
  }

  if (outer > 0) {
    if (folded)
      round({{Verb::copy, rank - inner, all}});
    else if (keeper)
      round({{Verb::send, rank + inner, all}});
    else
      round({});
  }
  return schedule;
}

}  // namespace lockstep
