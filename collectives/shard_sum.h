// ShardSum: adds the gradients of the consecutive shards that one rank owns, in the canonical order
// (collectives/schedule.h): bottom-up pairs, ((0 + 1) + (2 + 3)) + ... A rank with 2^k shards thus
// forms just the subtree that 2^k ranks would.
#pragma once

#include <cstdint>
#include <vector>

#include "src/device/device.h"

namespace lockstep {

/// Holds one partial sum per level of the tree. One thread.
class ShardSum {
 public:
  /// For `shards` shards of `count` floats, summed into `gradients`, memory of `device` where each
  /// shard's gradients appear. With one shard it holds nothing and does nothing.
  ShardSum(Device& device, float* gradients, std::int64_t count, int shards);

  /// `range` of `gradients` will hold the part of shard `shard`, which is not the last: gives the
  /// work that takes it in; what `stream` is given then may overwrite it. Each range has its shards
  /// in order.
  void take(int shard, Range range, Stream& stream);
  /// `range` of `gradients` will hold the last shard's part: gives the work that adds all others.
  void finish(Range range, Stream& stream);
  std::size_t bytes() const;

 private:
  void add(std::size_t level, Range range, Stream& stream);
  float* level(std::size_t level) const { return reinterpret_cast<float*>(levels_[level].get()); }

  Device& device_;
  float* gradients_;
  std::int64_t count_;
  std::uint32_t shards_;
  /// levels_[l]: a sum of 2^l shards that waits for its right neighbour.
  std::vector<Memory> levels_;
};

}  // namespace lockstep
