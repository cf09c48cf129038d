// GradientSync: everything that a step sums over the ranks: the gradient arena, first over the
// shards of this rank, then bucket by bucket over the ranks, and the statistics of layers
// (sync_batch_norm.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "apps/step/step_parts.h"
#include "collectives/buckets.h"
#include "collectives/shard_sum.h"
#include "net/checkpoint.h"

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
class GradientSync {
 public:
  /// Moves the reducer, the buckets and sync_bn out of `parts`.
  GradientSync(StepParts& parts, SumSpec spec);
  /// Stops the thread of the buckets, then blocks until both streams are done, because their work
  /// uses memory of the whole step.
  ~GradientSync();

  /// The listener for all gradients of own shard number `shard`, in slot `slot`. Valid until the
  /// next call for this slot.
  GradientListener& of(int shard, int slot);
  /// The work that writes `range` for own shard number `shard` is enqueued, in slot `slot`: the
  /// gradients of one layer, or the header. Shards come in order; the ranges of a shard come in
  /// arena order. Never waits.
  void written(int shard, int slot, Range range);
  /// Blocks until all sums of the step are in order: later work on stream() finds them. Throws
  /// Error if a message fails.
  void finish() { buckets_->finish(); }
  /// Collective, between two steps: the plan has other shares.
  void share();

  /// The sums: layout.count floats in memory of the device.
  float* gradients() const { return reducer_->gradients(); }
  /// The stream for work that reads the sums.
  Stream& stream() const { return reducer_->stream(); }
  const Reducer& reducer() const { return *reducer_; }
  Policy policy() const { return policy_; }
  /// Own shards that are under way side by side. Each is finished before the next begins, unless
  /// its layers need sums between them.
  int slots() const { return sync_bn_ ? sync_bn_->count() : 1; }
  /// Sums over all shards of the step, for layers. Null: layers see their own shard only.
  AcrossShards* across(int slot) { return sync_bn_ ? sync_bn_->across(slot) : nullptr; }
  /// The stream for the work of slot `slot`.
  Stream& stream_of(int slot);
  /// Does all work of the slots' streams. Throws Error if a message fails.
  void run_slots() {
    if (sync_bn_) sync_bn_->run();
  }
  const std::vector<Range>& buckets() const { return buckets_->buckets(); }
  /// Throws the errors of sums in streams, which no other call reports.
  void rethrow_errors();
  /// Reducer::abort() of each. All end side by side.
  void abort() noexcept;

  /// Seconds that the computing thread has waited since construction.
  double seconds() const {
    return buckets_->exposed_seconds() + (sync_bn_ ? sync_bn_->seconds() : 0);
  }
  /// Memory that this rank holds for the sums.
  std::size_t bytes() const;
  /// ReducerTraits::residual, which belongs to the state of this rank only: none or one section.
  /// The caller may read and write it between steps.
  std::vector<Section> sections() const;

 private:
  struct Listener : GradientListener {
    void written(int layer) override {
      sync->written(shard, slot, sync->spec_.layout.range_of(layer));
    }
    GradientSync* sync;
    int shard, slot;
  };
  std::unique_ptr<ShardSum> make_shard_sum() const;
  Stream* queue(int slot) { return sync_bn_ ? sync_bn_->queue(slot) : nullptr; }

  SumSpec spec_;
  Policy policy_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<SyncBatchNorm> sync_bn_;  ///< null: each shard has its own statistics
  std::unique_ptr<ShardSum> shard_sum_;
  std::unique_ptr<GradientBuckets> buckets_;  ///< may call back until it goes
  std::vector<Listener> listeners_;           ///< by slot
};

}  // namespace lockstep
