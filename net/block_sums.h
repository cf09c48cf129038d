// Sums over the elements of an array in an order that depends only on their number. For .cc files
// of net.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/device/each.h"

namespace lockstep {

inline constexpr std::int64_t kMostBlocks = 64;

/// The number of parts in which an array of `count` elements is summed.
constexpr std::int64_t blocks_of(std::int64_t count) {
  return std::clamp<std::int64_t>(count / 4096, 1, kMostBlocks);
}

/// parts[block * kSums + n]: sum n over a block's elements. element(i, sums) adds one element.
template <class Element>
struct BlockSums {
  Element element;
  std::int64_t count, blocks;
  double* parts;
  HOST_DEVICE bool idle() const {
    if constexpr (requires { element.idle(); }) {
      return element.idle();
    } else {
      return false;
    }
  }
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    double sums[Element::kSums] = {};
    for (std::int64_t i = count * block / blocks + team.lane; i < count * (block + 1) / blocks;
         i += team.lanes) {
      element(i, sums);
    }
    for (int n = 0; n < Element::kSums; ++n) {
      const double sum = team.sum(sums[n]);
      if (team.lane == 0) parts[block * Element::kSums + n] = sum;
    }
  }
};

/// Enqueues the sums of `count` elements: blocks_of(count) * Element::kSums doubles in `parts`.
template <class Element>
void give_block_sums(Stream& stream, std::int64_t count, const Element& element, double* parts) {
  const std::int64_t blocks = blocks_of(count);
  each_row(stream, blocks, count / blocks, BlockSums<Element>{element, count, blocks, parts});
}

}  // namespace lockstep
