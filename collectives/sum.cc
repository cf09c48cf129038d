#include "collectives/sum.h"

#include <algorithm>
#include <cstring>

#include "src/check.h"

namespace lockstep {
namespace {

constexpr std::int64_t kBlock =
    1024;  // 4 KiB: the partial sums of 8 ranks stay in half of a 32 KiB cache
constexpr std::int64_t kPartials =
    16384;  // floats of all partial sums together; shorter blocks for more than 32 ranks

/// Both results at once, with nothing stored in between: half of the traffic for the most common
/// number of ranks.
void sum_two(const float* a, const float* b, float* x, float* y, std::int64_t count) {
#pragma GCC ivdep  // x and y may be a and b, element by element, but are never shifted against them
  for (std::int64_t i = 0; i < count; ++i) {
    const float sum = a[i] + b[i];
    x[i] = sum;
    y[i] = sum;
  }
}

}  // namespace

void add(float* __restrict to, const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
}

void sum_canonically(std::span<const float* const> parts, std::span<float* const> results,
                     std::int64_t count) {
  if (parts.size() == 2 && results.size() == 2)
    return sum_two(parts[0], parts[1], results[0], results[1], count);
  const std::size_t pairs = (parts.size() + 1) / 2;
  const std::int64_t block = std::min(kBlock, kPartials / static_cast<std::int64_t>(pairs));
  expect(block > 0, "more parts than partial sums have room");
  alignas(64) float memory[kPartials];
  const auto partial = [&](std::size_t pair) {
    return memory + static_cast<std::int64_t>(pair) * block;
  };
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t length = std::min(block, count - begin);
    const std::size_t bytes = static_cast<std::size_t>(length) * sizeof(float);
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const float* __restrict left = parts[2 * pair] + begin;
      float* __restrict sum = partial(pair);
      if (2 * pair + 1 == parts.size()) {
        std::memcpy(sum, left, bytes);
        break;
      }
      const float* __restrict right = parts[2 * pair + 1] + begin;
      for (std::int64_t i = 0; i < length; ++i) sum[i] = left[i] + right[i];
    }
    for (std::size_t distance = 1; distance < pairs; distance *= 2) {
      for (std::size_t pair = 0; pair + distance < pairs; pair += 2 * distance) {
        add(partial(pair), partial(pair + distance), length);
      }
    }
    for (float* result : results) std::memcpy(result + begin, partial(0), bytes);
  }
}

}  // namespace lockstep
