// Two ways to add rows in one order. Up to 8 rows that merge like shards are added in registers.
// Each row is read once, and no partial sum goes to memory. All other folds run on a stack of short
// blocks, which stay in the cache. Both add the same pairs, so that the bits do not depend on the
// way.
#include "collectives/sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// The most parts that are summed in registers.
constexpr int kGroup = 8;

/// The sum of element `i` of the `Count` arrays from number `First` on. The left subtree holds the
/// largest power of two below `Count`.
template <int First, int Count, class Parts>
float sum_of(const Parts& parts, std::int64_t i) {
  if constexpr (Count == 1) {
    return parts[First][i];
  } else {
    constexpr int left = std::bit_floor(static_cast<unsigned>(Count - 1));
    return sum_of<First, left>(parts, i) + sum_of<First + left, Count - left>(parts, i);
  }
}

/// Writes the sum of N arrays to R arrays, which may be the same ones.
template <int N, int R>
void sum_group(float* const* parts, float* const* results, std::int64_t count) {
  std::array<const float*, N> from;
  std::array<float*, R> to;
  std::copy_n(parts, N, from.begin());
  std::copy_n(results, R, to.begin());
#pragma GCC ivdep  // arrays coincide or are disjoint, but are never shifted against each other
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = sum_of<0, N>(from, i);
    for (int r = 0; r < R; ++r) to[r][i] = sum;
  }
}

using Sum = void (*)(float* const* parts, float* const* results, std::int64_t count);

/// By the number of parts minus one: with as many results, or with one result.
template <bool ToAll, int... N>
constexpr std::array<Sum, kGroup> sums(std::integer_sequence<int, N...>) {
  return {sum_group < N + 1, ToAll ? N + 1 : 1 > ...};
}
constexpr auto kSumToAll = sums<true>(std::make_integer_sequence<int, kGroup>());
constexpr auto kSumToOne = sums<false>(std::make_integer_sequence<int, kGroup>());

/// Runs `fold` block by block, with its stack in the first-level cache. A result may be one of the
/// rows. A block of all rows is read before the block of any result is written.
void sum_on_stack(const Fold& fold, std::span<float* const> rows, std::span<float* const> results,
                  std::int64_t count) {
  constexpr std::int64_t kStack = 8192;  // floats
  // Whole cache lines, so that each sum on the stack is aligned.
  const std::int64_t block = std::min<std::int64_t>(1024, kStack / fold.depth / 16 * 16);
  expect(block > 0, "too many sums wait for others");
  alignas(64) float stack[kStack];
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    float* top = stack;  // the next free sum
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const float* from = rows[row] + begin;
      if (fold.merges[row] == 0) {
        std::memcpy(top, from, length * sizeof(float));
        top += block;
        continue;
      }
      add(top - block, from, length);
      for (int merge = 1; merge < fold.merges[row]; ++merge, top -= block)
        add(top - 2 * block, top - block, length);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      // One sum goes to all results. Otherwise each sum that is left has a result of its own.
      const float* from = stack + (fold.left.size() == 1 ? 0 : i * block);
      std::memcpy(results[i] + begin, from, length * sizeof(float));
    }
  }
}

}  // namespace

void add(float* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void sum_rows(const Fold& fold, std::span<float* const> rows, std::span<float* const> results,
              std::int64_t count) {
  const bool in_registers = rows.size() <= kGroup && fold.by_number;
  if (rows.empty()) return;
  if (in_registers && results.size() == 1) {
    kSumToOne[rows.size() - 1](rows.data(), results.data(), count);
  } else if (in_registers && results.size() == rows.size()) {
    kSumToAll[rows.size() - 1](rows.data(), results.data(), count);
  } else {
    sum_on_stack(fold, rows, results, count);
  }
}

void sum_canonically(std::span<float* const> parts, std::int64_t count) {
  sum_rows(Fold::of_shards(static_cast<int>(parts.size())), parts, parts, count);
}

}  // namespace lockstep
