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

/// to[c] = the sum of column c. A body of each_column().
struct SumOfBlocks {
  const float* partial;
  float* to;
  std::int64_t blocks, columns;
  template <int kMost, class Count, class Team>
  HOST_DEVICE void operator()(std::int64_t c, Count count, Team team) const {
    double sum[kMost];
    sum_of_blocks(partial + c, blocks, columns, count, team, sum);
    if (team.lane == 0) write(to + c, count, [&](int k) { return static_cast<float>(sum[k]); });
  }
};

/// Neighbours of x and of the gradient of y.
template <class X, class Dy>
struct Pair {
  X x;
  Dy dy;
};
template <class X, class Dy>
Pair(X, Dy) -> Pair<X, Dy>;

/// partial[block]: the sums over the rows of a block of x [* dy], each column by itself, in fp32.
/// Block sample * parts + part is one of the `parts` of a sample's `rows`. A body of each_block().
template <class T, bool kProducts>
struct SumParts {
  static constexpr int kWidth = 4 / sizeof(T);
  const T *x, *dy;
  float* partial;
  std::int64_t rows, columns, parts;
  bool aligned() const { return aligned_for_packs<kWidth>(x, kProducts ? dy : x); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t block, std::int64_t c, Count count) const {
    const std::int64_t sample = quotient(block, parts), part = block - sample * parts;
    float sum[kMost];
    for (int k = 0; k < count; ++k) sum[k] = 0;
    const auto load = [&](std::int64_t row) {
      const std::int64_t place = (sample * rows + row) * columns + c;
      return Pair{read(x + place, count), read((kProducts ? dy : x) + place, count)};
    };
    for_rows<8>(rows * part / parts, rows * (part + 1) / parts, count, load,
                [&](std::int64_t, const auto& row) {
                  for_columns(
                      count, [&](int k) { sum[k] += kProducts ? row.x[k] * row.dy[k] : row.x[k]; });
                });
    write(partial + block * columns + c, count, [&](int k) { return sum[k]; });
  }
};

}  // namespace lockstep
