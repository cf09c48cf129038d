// The binomial tree of the canonical order: at distance d = 1, 2, 4, .. rank r + d sends to rank r,
// a multiple of 2d. Then the sum returns on the same edges. 2 log P rounds of the whole bucket.
//
// The chunks of a long bucket follow each other through the tree, one level per round, so that all
// levels work at once.
#include <algorithm>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {
namespace {

/// Shorter chunks cost more latency than they hide at 10 Gbit/s (64 Ki floats take 220 us).
constexpr std::int64_t kChunk = 64 << 10;

int levels_of(int size) {
  int levels = 0;
  while ((1 << levels) < size) ++levels;
  return levels;
}

}  // namespace

Schedule tree(int rank, int size, std::int64_t count) {
  const int levels = levels_of(size);
  const int chunks = static_cast<int>(std::clamp<std::int64_t>(count / kChunk, 1, 64));
  Schedule schedule{
      count, 0,
      std::vector<Round>(levels == 0 ? 0 : static_cast<std::size_t>(2 * levels + chunks - 1))};

  for (int level = 0; level < levels; ++level) {
    const int distance = 1 << level;
    const bool parent = rank % (2 * distance) == 0 && rank + distance < size;
    const bool child = rank % (2 * distance) == distance;
    if (!parent && !child) continue;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const Range range = part_of({0, count}, chunk, chunks);
      if (range.count == 0) continue;
      // Chunk c is at level l in round c + l on its way up. It returns through the levels in
      // reverse order. So the sum of the first chunk goes down while later chunks go up.
      const int up = chunk + level;
      const int down = chunk + 2 * levels - 1 - level;
      const int peer = parent ? rank + distance : rank - distance;
      schedule.rounds[up].push_back({parent ? Verb::add : Verb::send, peer, range});
      schedule.rounds[down].push_back({parent ? Verb::send : Verb::copy, peer, range});
    }
  }
  return schedule;
}

}  // namespace lockstep
