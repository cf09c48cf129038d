#include "collectives/shard_sum.h"

#include <algorithm>

namespace lockstep {

ShardSum::ShardSum(float* gradients, std::int64_t count, int shards)
    : gradients_(gradients), count_(count), shards_(shards) {
  // Every level that the last shard finds occupied: the bits of the numbers below shards - 1.
  for (int left = shards - 1; left > 0; left /= 2)
    levels_.emplace_back(static_cast<std::size_t>(count));
}

void ShardSum::take(int shard) {
  int level = 0;
  for (; (shard >> level) & 1; ++level) add_level(level, {0, count_});
  std::copy_n(gradients_, count_, levels_[static_cast<std::size_t>(level)].begin());
}

void ShardSum::finish(Range range) {
  const int last = shards_ - 1;
  for (int level = 0; (last >> level) != 0; ++level) {
    if ((last >> level) & 1) add_level(level, range);
  }
}

std::size_t ShardSum::bytes() const {
  return levels_.size() * static_cast<std::size_t>(count_) * sizeof(float);
}

void ShardSum::add_level(int level, Range range) {
  float* __restrict sum = gradients_;
  const float* __restrict left = levels_[static_cast<std::size_t>(level)].data();
  for (std::int64_t i = range.begin; i < range.end(); ++i) sum[i] = left[i] + sum[i];
}

}  // namespace lockstep
