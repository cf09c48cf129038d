// ShardSum: adds the gradients of the consecutive shards that one rank owns, in the canonical order
// (collectives/schedule.h): bottom-up pairs, ((0 + 1) + (2 + 3)) + ... A rank with 2^k shards thus
// forms just the subtree that 2^k ranks would.
#pragma once

#include <cstdint>
#include <vector>

#include "src/view.h"

namespace lockstep {

/// Holds one partial sum per level of the tree. One thread.
class ShardSum {
 public:
  /// For `shards` shards of `count` floats, summed into `gradients`, where each shard's gradients
  /// appear. With one shard it holds nothing and does nothing.
  ShardSum(float* gradients, std::int64_t count, int shards);

  /// `gradients` holds all of shard `shard`, which is not the last: takes it in; `gradients` may be
  /// overwritten.
  void take(int shard);
  /// `range` of `gradients` holds the last shard's part: adds all others to it.
  void finish(Range range);
  std::size_t bytes() const;

 private:
  void add_level(int level, Range range);  // gradients = level + gradients

  float* gradients_;
  std::int64_t count_;
  int shards_;
  std::vector<std::vector<float>>
      levels_;  // levels_[l]: a sum of 2^l shards that waits for its right neighbour
};

}  // namespace lockstep
