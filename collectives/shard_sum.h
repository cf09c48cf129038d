// ShardSum: adds the gradients of the consecutive shards of one rank in the canonical order
// (collectives/schedule.h). A rank with 2^k shards forms the same subtree as 2^k ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/device.h"

namespace lockstep {

/// Owns one partial sum per level of the tree. One thread.
class ShardSum {
 public:
  /// For `shards` shards of `count` floats. `gradients`: memory of `device` that gets each shard's
  /// gradients, then the sum. With one shard it allocates nothing and does nothing.
  ShardSum(Device& device, float* gradients, std::int64_t count, int shards);

  /// Adds `range` of `gradients`, written by shard `shard`, which is not the last. Work that
  /// is enqueued in `stream` later may overwrite the range. Each range gets its shards in order.
  void add(int shard, Range range, Stream& stream);
  /// The same for the last shard: `range` of `gradients` becomes the sum.
  void finish(Range range, Stream& stream);
  std::size_t bytes() const;

 private:
  void add_level(std::size_t level, Range range, Stream& stream);
  float* level(std::size_t level) const { return reinterpret_cast<float*>(levels_[level].get()); }

  Device& device_;
  float* gradients_;
  std::int64_t count_;
  std::uint32_t shards_;
  /// levels_[l]: a sum of 2^l shards that waits for its right neighbour
  std::vector<Memory> levels_;
};

}  // namespace lockstep
