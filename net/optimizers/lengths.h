// How long an array of parameters is, and another of its size beside it: what LARS and LAMB take
// their steps by, array by array.
#pragma once

#include <cmath>

#include "net/block_sums.h"
#include "net/update.h"

namespace lockstep {

static_assert(sizeof(LayerScratch::sums) == 2 * kMostBlocks * sizeof(double));

/// Euclidean, from the sums of squares that give_block_sums() left.
struct Lengths {
  double first = 0, second = 0;

  HOST_DEVICE static Lengths of(const double* sums, std::int64_t blocks) {
    double first = 0, second = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      first += sums[2 * block];
      second += sums[2 * block + 1];
    }
    return {std::sqrt(first), std::sqrt(second)};
  }
  HOST_DEVICE bool both() const { return first > 0 && second > 0; }
};

/// A ratio of lengths as a factor: of a length that is next to none, the largest number there is,
/// so that 0 stays 0.
HOST_DEVICE inline float finite(double ratio) {
  constexpr float kMost = 0x1.fffffep127f;
  return ratio < kMost ? static_cast<float>(ratio) : kMost;
}

}  // namespace lockstep
