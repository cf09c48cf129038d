// Sums over the elements of an array, or over the rows of a matrix, in an order that depends only
// on their number and the kind of device. For .cc files of net.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/device/each.h"
#include "src/device/team_sums.h"

namespace lockstep {

inline constexpr std::int64_t kMostBlocks = 1024;

/// The number of parts in which an array of `count` elements is summed on a device of so many
/// `lanes` (DeviceTraits): a GPU's warps need more of them than cores do.
constexpr std::int64_t blocks_of(std::int64_t count, std::int64_t lanes) {
  return lanes > 1 ? std::clamp<std::int64_t>(count / 1024, 1, kMostBlocks)
                   : std::clamp<std::int64_t>(count / 4096, 1, 64);
}

/// The number of blocks in which `rows` of `columns` are summed, each column by itself. On cores
/// the blocks' sums must cost less than the rows, so a block has at least 16 rows. On a GPU blocks
/// must be enough for all lanes.
constexpr std::int64_t row_blocks(std::int64_t rows, std::int64_t columns, std::int64_t lanes) {
  if (lanes <= 1) return std::clamp<std::int64_t>(rows / 16, 1, 64);
  const std::int64_t least = std::min<std::int64_t>(rows, 64);
  return std::clamp(lanes / columns, least, std::max(rows / 16, least));
}
/// The number of blocks for work on each row by itself.
constexpr std::int64_t apply_blocks(std::int64_t rows, std::int64_t columns, std::int64_t lanes) {
  return std::clamp<std::int64_t>(lanes > 1 ? 8 * lanes / columns : rows * columns / 4096, 1, rows);
}

/// sums[k]: the sum of term(block, k) over `blocks` blocks of rows, for each k below `count`. For
/// bodies of each_column().
template <int kMost, class Count, class Team, class Term>
HOST_DEVICE void add_blocks(std::int64_t blocks, Count count, Team team, const Term& term,
                            double (&sums)[kMost]) {
  for (int k = 0; k < count; ++k) sums[k] = 0;
  for (std::int64_t block = team.lane; block < blocks; block += team.lanes)
    for_columns(count, [&](int k) { sums[k] += term(block, k); });
  for (int k = 0; k < count; ++k) sums[k] = team.sum(sums[k]);
}
/// The sums of `count` columns of `partial`, the sums of `blocks` blocks of rows of `columns`.
template <int kMost, class Count, class Team>
HOST_DEVICE void sum_of_blocks(const float* partial, std::int64_t blocks, std::int64_t columns,
                               Count count, Team team, double (&sums)[kMost]) {
  const auto term = [=](std::int64_t block, int k) { return partial[block * columns + k]; };
  add_blocks(blocks, count, team, term, sums);
}

/// parts[block * kSums + n]: sum n over a block's elements. element(i, terms) writes the kSums
/// terms of element i. Element::loaded(), if it exists, returns an element that reads the step's
/// rates through no pointer.
template <class Element>
struct BlockSums {
  Element element;
  std::int64_t count, blocks;
  double* parts;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    double sums[Element::kSums] = {};
    const std::int64_t begin = count * block / blocks, end = count * (block + 1) / blocks;
    if constexpr (requires { element.loaded(); }) {
      add_up(team, begin, end, element.loaded(), sums);
    } else {
      add_up(team, begin, end, element, sums);
    }
    if (team.lane != 0) return;
    for (int n = 0; n < Element::kSums; ++n) parts[block * Element::kSums + n] = sums[n];
  }
};

/// Enqueues the sums of `count` elements: `blocks` * Element::kSums doubles in `parts`.
template <class Element>
void enqueue_block_sums(Stream& stream, std::int64_t count, std::int64_t blocks,
                        const Element& element, double* parts) {
  each_row(stream, blocks, count / blocks, BlockSums<Element>{element, count, blocks, parts});
}

}  // namespace lockstep
