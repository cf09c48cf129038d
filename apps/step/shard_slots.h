// ShardSlots: how many shards of a rank are under way side by side, and in which streams.
#pragma once

#include <utility>

#include "net/layer.h"

namespace lockstep {

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
