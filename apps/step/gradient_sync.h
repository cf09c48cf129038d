// GradientSync: everything that a step sums over the ranks: the gradients (dense_sum.h) and the
// statistics of layers (sync_batch_norm.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "apps/step/dense_sum.h"
#include "apps/step/step_parts.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Used by the computing thread.
class GradientSync {
 public:
  /// Moves the reducer, the buckets and sync_bn out of `parts`.
  GradientSync(StepParts& parts, const SumSpec& spec);

  /// The listener for all gradients of own shard number `shard`, in slot `slot`. Valid until the
  /// next call for this slot.
  GradientListener& of(int shard, int slot);
  /// DenseSum::share()
  void share() { dense_->share(); }
  /// The work that writes the header of this shard is enqueued.
  void header_written(int shard, int slot) { dense_->written(shard, slot, {0, Layout::kHeader}); }
  /// DenseSum::finish()
  void finish() { dense_->finish(); }

  /// The sums: layout.count floats in memory of the device.
  float* gradients() const { return reducer_->gradients(); }
  /// The stream for work that reads the sums.
  Stream& stream() const { return reducer_->stream(); }
  const Reducer& reducer() const { return *reducer_; }
  Policy policy() const { return policy_; }
  ShardSlots& slots() { return sync_bn_ ? *sync_bn_ : one_slot_; }
  const std::vector<Range>& buckets() const { return dense_->buckets(); }
  /// Throws the errors of sums in streams, which no other call reports.
  void rethrow_errors();
  /// Reducer::abort() of each. All end side by side.
  void abort() noexcept;

  /// Seconds that the computing thread has waited since construction.
  double seconds() const { return dense_->seconds() + (sync_bn_ ? sync_bn_->seconds() : 0); }
  /// Memory that this rank holds for the sums.
  std::size_t bytes() const;
  /// ReducerTraits::residual, which belongs to the state of this rank only: none or one section.
  /// The caller may read and write it between steps.
  std::vector<Section> sections() const;

 private:
  struct Listener : GradientListener {
    void written(int layer) override { sync->dense_->written(shard, slot, sync->ranges_[layer]); }
    GradientSync* sync;
    int shard, slot;
  };

  Policy policy_;
  std::unique_ptr<Reducer> reducer_;
  std::unique_ptr<SyncBatchNorm> sync_bn_;  ///< null: each shard has its own statistics
  ShardSlots one_slot_;
  std::unique_ptr<DenseSum> dense_;  ///< last, because its work uses the others until it ends
  std::vector<Range> ranges_;        ///< by layer number; empty for layers without parameters
  std::vector<Listener> listeners_;  ///< by slot
};

}  // namespace lockstep
