// Two binary trees at once, each with half of the bucket, in chunks that follow each other up and
// down. They need 2 log P rounds to fill, and each rank sends and receives about twice the bucket.
// For long buckets on many ranks. Source: P. Sanders, J. Speck and J. L. Traeff, "Two-tree
// algorithms for full bandwidth broadcast, reduction and scan", 2009.
//
// In the first tree rank r has the children 2 r + 1 and 2 r + 2. The second is its mirror image, in
// which the leaves of the first are inner nodes. D is the depth of the lowest leaf. A rank at depth
// d sends the sum of its subtree of chunk s up in round s + D - d, and gets the whole sum in round
// s + D + d - 1. Both children arrive in one round: the first is added at once, the second uses
// scratch.
#include <algorithm>
#include <bit>

#include "collectives/algorithms/algorithms.h"

namespace lockstep {
namespace {

constexpr std::int64_t kChunk = 64 << 10;

int depth_of(int node) { return std::bit_width(static_cast<unsigned>(node) + 1) - 1; }

/// Adds one tree to `schedule`: `node` is this rank's node in it, rank_at(node) the rank there.
template <class RankAt>
void add_tree(Schedule& schedule, Range part, std::int64_t scratch, int chunks, int node, int size,
              RankAt rank_at) {
  const int lowest = depth_of(size - 1), depth = depth_of(node);
  const int first = 2 * node + 1, second = first + 1;
  for (int number = 0; number < chunks; ++number) {
    const Range chunk = part_of(part, number, chunks);
    if (chunk.count == 0) continue;
    const auto round = [&](int offset) -> Round& { return schedule.rounds[number + offset]; };
    if (node > 0) {
      const int parent = rank_at((node - 1) / 2);
      round(lowest - depth).push_back({Verb::send, parent, chunk});
      round(lowest + depth - 1).push_back({Verb::copy, parent, chunk});
    }
    if (first < size) {
      round(lowest - depth - 1).push_back({Verb::add, rank_at(first), chunk});
      round(lowest + depth).push_back({Verb::send, rank_at(first), chunk});
    }
    if (second < size) {
      Round& up = round(lowest - depth - 1);
      up.push_back({Verb::copy, rank_at(second), {scratch, chunk.count}});
      up.push_back({Verb::add, rank_at(node), chunk, scratch});
      round(lowest + depth).push_back({Verb::send, rank_at(second), chunk});
    }
  }
}

}  // namespace

Schedule double_tree(int rank, int size, std::int64_t count) {
  Schedule schedule{count, 0, {}};
  if (size == 1) return schedule;
  const int chunks = static_cast<int>(std::clamp<std::int64_t>(count / 2 / kChunk, 1, 64));
  const std::int64_t longest = (count + 1) / 2 / chunks + 1;
  schedule.scratch = 2 * longest;
  schedule.rounds.resize(chunks - 1 + 2 * depth_of(size - 1));
  const auto forward = [](int node) { return node; };
  const auto mirrored = [size](int node) { return size - 1 - node; };
  const Range all{0, count};
  add_tree(schedule, part_of(all, 0, 2), count, chunks, forward(rank), size, forward);
  add_tree(schedule, part_of(all, 1, 2), count + longest, chunks, mirrored(rank), size, mirrored);
  return schedule;
}

}  // namespace lockstep
