#include "collectives/sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

/// Parts that are summed in registers. A power of two, so that each group is a subtree of the
/// canonical order.
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

/// By the number of parts minus one: with all parts as results, or with one result.
template <bool InPlace, int... N>
constexpr std::array<Sum, kGroup> sums(std::integer_sequence<int, N...>) {
  return {sum_group < N + 1, InPlace ? N + 1 : 1 > ...};
}
constexpr auto kSumInPlace = sums<true>(std::make_integer_sequence<int, kGroup>());
constexpr auto kSumToOne = sums<false>(std::make_integer_sequence<int, kGroup>());

/// For more parts than registers: adds block by block, with one partial sum per group in the
/// first-level cache.
void sum_groups(std::span<float* const> parts, std::int64_t count) {
  constexpr std::int64_t kPartials = 8192;  // floats of all partial sums
  const auto groups = static_cast<std::int64_t>(ceil_div(parts.size(), kGroup));
  const std::int64_t block = std::min<std::int64_t>(1024, kPartials / groups);
  expect(block > 0, "too many parts for the partial sums");
  alignas(64) float memory[kPartials];
  std::array<float*, kGroup> part;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::span<float* const> members = parts.subspan(group * kGroup);
      const std::size_t size = std::min<std::size_t>(kGroup, members.size());
      for (std::size_t i = 0; i < size; ++i) part[i] = members[i] + begin;
      float* const partial = memory + group * block;
      kSumToOne[size - 1](part.data(), &partial, length);
    }
    for (std::int64_t distance = 1; distance < groups; distance *= 2) {
      for (std::int64_t group = 0; group + distance < groups; group += 2 * distance) {
        add(memory + group * block, memory + (group + distance) * block, length);
      }
    }
    for (float* each : parts) std::memcpy(each + begin, memory, length * sizeof(float));
  }
}

}  // namespace

void add(float* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void sum_canonically(std::span<float* const> parts, std::int64_t count) {
  if (parts.empty()) return;
  if (parts.size() <= kGroup) {
    kSumInPlace[parts.size() - 1](parts.data(), parts.data(), count);
  } else {
    sum_groups(parts, count);
  }
}

}  // namespace lockstep
