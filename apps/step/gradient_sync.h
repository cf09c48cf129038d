// GradientSync: everything that a step sums over the ranks, through the interface RankSum.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "apps/step/dense_sum.h"
#include "apps/step/step_parts.h"

namespace lockstep {

/// Used by the computing thread.
class GradientSync {
 public:
  /// Moves the reducer, the buckets and sync_bn out of `parts`. Other references and `timeline`
  /// (null: none) outlive it. `computing` is the stream of the computing thread. `plan`: of this
  /// rank. `dynamic`: the loss is scaled dynamically. `reduced` is called for each bucket whose sum
  /// is in order (GradientBuckets).
  GradientSync(StepParts& parts, Device& device, const Layout& layout, const RunPlan& plan,
               bool dynamic, Stream& computing, GradientBuckets::Reduced reduced,
               RankRecorder& recorder, Track* timeline);

  /// The listener for all gradients of own shard number `shard`, in slot `slot`. Valid until the
  /// next call for this slot.
  GradientListener& of(int shard, int slot);
  /// Collective, between two steps: `plan` has other shares.
  void share(const RunPlan& plan) { dense_->share(plan.shares, plan.own()); }
  /// RankSum::begin_step() of each.
  void begin_step();
  /// The work that writes the header of this shard is enqueued.
  void header_written(int shard, int slot) {
    const Range header{0, Layout::kHeader};
    owner(header).written(shard, slot, header);
  }
  /// RankSum::finish() of each.
  void finish();
  /// RankSum::pending() of any.
  bool pending() const;
  /// RankSum::commit_or_undo() of each that is pending().
  void commit_or_undo(const LossScale& scale);

  /// The sums: layout.count floats in memory of the device.
  float* gradients() const { return reducer_->gradients(); }
  /// The stream for work that reads the sums.
  Stream& stream() const { return reducer_->stream(); }
  const Reducer& reducer() const { return *reducer_; }
  Policy policy() const { return policy_; }
  ShardSlots& slots() { return sync_bn_ ? *sync_bn_ : one_slot_; }
  const std::vector<Range>& buckets() const { return dense_->buckets(); }
  /// RankSum::rethrow_errors() of each.
  void rethrow_errors();
  /// RankSum::abort() of each. All end side by side.
  void abort() noexcept;

  double seconds() const;
  std::size_t bytes() const;
  /// RankSum::sections() of all.
  std::vector<Section> sections();

 private:
  struct Listener : GradientListener {
    void written(int layer) override {
      const Range range = sync->ranges_[layer];
      sync->owner(range).written(shard, slot, range);
    }
    GradientSync* sync;
    int shard, slot;
  };
  RankSum& owner(Range range) const;

  Policy policy_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<SyncBatchNorm> sync_bn_;  ///< null: each shard has its own statistics
  ShardSlots one_slot_;
  std::vector<std::unique_ptr<RankSum>> others_;
  std::unique_ptr<DenseSum> dense_;  ///< last, because its work uses the others until it ends
  std::vector<RankSum*> sums_;       ///< all of the above; DenseSum, which owns the rest, is last
  std::vector<Range> ranges_;        ///< by layer number; empty for layers without parameters
  std::vector<Listener> listeners_;  ///< by slot
};

}  // namespace lockstep
