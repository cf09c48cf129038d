// RankSum: one way of summing over the ranks during a step. Each way is one file: dense_sum.h sums
// the gradients, sync_batch_norm.h the statistics of layers, error_feedback.cc keeps the residuals
// of rounding. GradientSync owns them, and gradient_sync.cc lists them.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/reducer.h"
#include "net/checkpoint.h"
#include "net/layer.h"
#include "net/loss_scale.h"
#include "src/base/view.h"

namespace lockstep {

class RankRecorder;

/// Used by the computing thread. A way overrides the calls that concern it.
class RankSum {
 public:
  virtual ~RankSum() = default;
  /// The first call of each step.
  virtual void begin_step() {}
  /// Whether it sums the gradients in `range`: those of one layer, or the header.
  virtual bool owns(Range /*range*/) const { return false; }
  /// The work that writes `range` for own shard number `shard` is enqueued, in slot `slot`. Shards
  /// come in order; the ranges of a shard come in arena order. Never waits.
  virtual void written(int /*shard*/, int /*slot*/, Range /*range*/) {}
  /// Blocks until all sums of the step are in order: later work on Reducer::stream() finds them.
  /// Throws Error if a message fails.
  virtual void finish() {}
  /// Whether commit_or_undo() is due: the loss scale after the last step decides on its state.
  virtual bool pending() const { return false; }
  /// Keeps the state of the last step, or restores the one before it. `scale`: after that step.
  virtual void commit_or_undo(const LossScale& /*scale*/) {}
  /// Throws the errors of sums in streams, which no other call reports.
  virtual void rethrow_errors() {}
  /// Reducer::abort().
  virtual void abort() noexcept {}
  /// Seconds that the computing thread has waited since construction.
  virtual double seconds() const { return 0; }
  /// Memory that this rank holds for it.
  virtual std::size_t bytes() const { return 0; }
  /// Arenas of the host that belong to the state of this rank only. The caller may read and write
  /// them between steps, but not while pending().
  virtual std::vector<Section> sections() { return {}; }
};

/// The arguments of MakeSum. References outlive the way of summing.
struct SumContext {
  Comm comm;  ///< duplicate() it for messages
  Device& device;
  const Layout& layout;
  Reducer& reducer;  ///< of the gradients
  Stream& computing;
  RankRecorder& recorder;
  bool dynamic;  ///< the loss scale changes
};

/// Makes one way. Null: this run does not need it. Collective.
using MakeSum = std::unique_ptr<RankSum>(const SumContext& context);

/// Own shards that are under way side by side. This class has a single slot: each shard is finished
/// before the next begins. SyncBatchNorm has several if its layers need sums between them.
class ShardSlots {
 public:
  virtual ~ShardSlots() = default;
  virtual int count() const { return 1; }
  /// The stream of slot `slot`; `computing` is the stream of the computing thread.
  virtual Stream& stream(int /*slot*/, Stream& computing) { return computing; }
  /// Sums over all shards of the step, for layers. Null: layers see their own shard only.
  virtual AcrossShards* across(int /*slot*/) { return nullptr; }
  /// Does all work of the slots' streams. Throws Error if a message fails.
  virtual void run() {}

  /// Calls `next` when the earlier work of the slot is done or enqueued.
  template <class Next>
  void then(int slot, Next next) {
    if (Stream* later = queue(slot))
      later->enqueue(std::move(next));
    else
      next();
  }

 protected:
  /// Holds the slot's work until run(). Null: work is enqueued at once.
  virtual Stream* queue(int /*slot*/) { return nullptr; }
};

}  // namespace lockstep
