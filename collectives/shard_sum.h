// ShardSum: adds the gradients of the consecutive shards of one rank in the canonical order
// (collectives/schedule.h), up to the rank's roots (collectives/shares.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/shares.h"
#include "src/device/device.h"

namespace lockstep {

/// A stack of partial sums: the roots, and sums that wait for their right neighbour. One thread.
class ShardSum {
 public:
  /// For `own`, this rank's shards of `all`, with `count` floats each. `roots`: memory of `device`,
  /// one array for each of roots_of(own, all). The last one gets each shard's gradients, and then
  /// the last root. With one shard it allocates nothing and does nothing.
  ShardSum(Device& device, std::span<float* const> roots, std::int64_t count, Range own, int all);

  /// Adds `range` of the gradients, written by own shard number `shard`, which is not the last.
  /// Work that is enqueued in `stream` later may overwrite the range. Each range gets its shards in
  /// order.
  void add(int shard, Range range, Stream& stream);
  /// The same for the last shard: `range` of each root becomes its sum.
  void finish(Range range, Stream& stream);
  std::size_t bytes() const;

 private:
  void merge(int shard, Range range, Stream& stream);

  Device& device_;
  std::int64_t count_;
  Fold fold_;                 ///< of the own shards
  std::vector<int> below_;    ///< by shard: sums on the stack before it
  std::vector<Memory> own_;   ///< for sums that are no root
  std::vector<float*> sums_;  ///< the stack: roots except the last, then own_
  float* gradients_;
};

}  // namespace lockstep
