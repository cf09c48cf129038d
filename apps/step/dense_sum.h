// DenseSum: sums the gradient arena, first over the shards of this rank, then bucket by bucket over
// the ranks.
#pragma once

#include <memory>
#include <vector>

#include "apps/step/run_plan.h"
#include "apps/step/shard_slots.h"
#include "collectives/buckets.h"
#include "collectives/shard_sum.h"

namespace lockstep {

/// The parts of a step that its sums use. References and `timeline` outlive them.
struct SumSpec {
  Device& device;
  const Layout& layout;
  const RunPlan& plan;               ///< of this rank; other shares only before share()
  Stream& computing;                 ///< of the computing thread
  GradientBuckets::Reduced reduced;  ///< called as GradientBuckets does it
  RankRecorder& recorder;
  Track* timeline;  ///< null: none
};

/// Used by the computing thread.
class DenseSum {
 public:
  /// `reducer`, for spec.layout, was made for `buckets`. It and `slots` outlive this.
  DenseSum(SumSpec spec, Reducer& reducer, std::vector<Range> buckets, Policy policy,
           ShardSlots& slots);
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
  /// Collective, between two steps: the plan has other shares.
  void share();

 private:
  SumSpec spec_;
  ShardSlots& slots_;
  Reducer& reducer_;
  std::unique_ptr<ShardSum> shard_sum_;
  std::unique_ptr<GradientBuckets> buckets_;  ///< may call back until it goes
};

}  // namespace lockstep
