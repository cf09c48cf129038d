// DenseSum: sums the gradient arena, first over the shards of this rank, then bucket by bucket over
// the ranks.
#pragma once

#include <memory>
#include <vector>

#include "apps/step/shard_slots.h"
#include "collectives/buckets.h"
#include "collectives/shard_sum.h"

namespace lockstep {

/// Used by the computing thread.
class DenseSum {
 public:
  /// References and `timeline` (null: none) outlive it. `reducer` was made for `buckets` and
  /// `count` elements. This rank has the shards `own` of `all`. `computing` is the stream of the
  /// computing thread. `reduced` is called as GradientBuckets does it.
  DenseSum(Device& device, Reducer& reducer, std::vector<Range> buckets, Policy policy,
           std::int64_t count, Range own, int all, ShardSlots& slots, Stream& computing,
           GradientBuckets::Reduced reduced, RankRecorder& recorder, Track* timeline);
  /// Stops the thread of the buckets, then blocks until both streams are done, because their work
  /// uses memory of the whole step.
  ~DenseSum();

  /// The work that writes `range` for own shard number `shard` is enqueued, in slot `slot`: the
  /// gradients of one layer, or the header. Shards come in order; the ranges of a shard come in
  /// arena order. Never waits.
  void written(int shard, int slot, Range range);
  /// Blocks until all sums of the step are in order: later work on Reducer::stream() finds them.
  /// Throws Error if a message fails.
  void finish() { buckets_->finish(); }
  /// Throws the errors of sums in streams, which no other call reports.
  void rethrow_errors() {
    if (reducer_.traits().in_stream) reducer_.advance();
  }
  /// Reducer::abort().
  void abort() noexcept { reducer_.abort(); }
  /// Seconds that the computing thread has waited since construction.
  double seconds() const { return buckets_->exposed_seconds(); }
  /// Memory that this rank holds for it.
  std::size_t bytes() const { return shard_sum_->bytes(); }
  const std::vector<Range>& buckets() const { return buckets_->buckets(); }
  /// Collective, between two steps: this rank has the shards `own` from now on, one of `shares`.
  void share(const Shares& shares, Range own);

 private:
  Device& device_;
  std::int64_t count_;
  std::int64_t shards_;
  ShardSlots& slots_;
  Stream& computing_;
  Reducer& reducer_;
  RankRecorder& recorder_;
  std::unique_ptr<ShardSum> shard_sum_;
  std::unique_ptr<GradientBuckets> buckets_;  ///< may call back until it goes
};

}  // namespace lockstep
