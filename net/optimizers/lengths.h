// The lengths of a parameter's array and of a second array: LARS, LAMB and Muon scale their steps
// by them.
#pragma once

#include <cmath>

#include "net/block_sums.h"
#include "net/update.h"

namespace lockstep {

static_assert(sizeof(LayerScratch::sums) == 2 * kMostBlocks * sizeof(double));

/// Euclidean, from the sums of squares that enqueue_block_sums() left.
struct Lengths {
  double first = 0, second = 0;

  template <class Team>
  HOST_DEVICE static Lengths of(const double* sums, std::int64_t blocks, Team team) {
    double first = 0, second = 0;
    for (std::int64_t block = team.lane; block < blocks; block += team.lanes) {
      first += sums[2 * block];
      second += sums[2 * block + 1];
    }
    return {std::sqrt(team.sum(first)), std::sqrt(team.sum(second))};
  }
  HOST_DEVICE bool both() const { return first > 0 && second > 0; }
};

/// A ratio of lengths as a factor, at most the largest float, so that 0 times it is 0.
HOST_DEVICE inline float finite(double ratio) {
  constexpr float kMost = 0x1.fffffep127f;
  return ratio < kMost ? static_cast<float>(ratio) : kMost;
}

}  // namespace lockstep
