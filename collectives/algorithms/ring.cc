// Reduce-scatter, then all-gather around the ring 0 -> 1 -> .. -> P-1 -> 0: 2 (P-1) rounds of 1/P
// of the bucket. Source: P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009.
//
// The bucket has P parts. Part i starts at rank i, and each rank that it passes adds its own. The
// sum has ring order, which is canonical only for two ranks.
#include "collectives/algorithms/algorithms.h"

namespace lockstep {

Schedule ring(int rank, int size, std::int64_t count) {
  Schedule schedule{count, 0, {}};
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  const auto round = [&](int sent, Verb verb, int received) {
    Round& added = schedule.rounds.emplace_back();
    const auto part = [&](int number) {
      return part_of({0, count}, ((number % size) + size) % size, size);
    };
    if (part(sent).count > 0) added.push_back({Verb::send, next, part(sent)});
    if (part(received).count > 0) added.push_back({verb, previous, part(received)});
  };
  for (int t = 0; t < size - 1; ++t) round(rank - t, Verb::add, rank - t - 1);
  // Now rank r has the whole sum of part r + 1.
  for (int t = 0; t < size - 1; ++t) round(rank + 1 - t, Verb::copy, rank - t);
  return schedule;
}

}  // namespace lockstep
