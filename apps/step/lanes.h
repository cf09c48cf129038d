// Lanes: own shards that are under way side by side. This one has a single lane: each shard is
// finished before the next begins. SyncBatchNorm has several if its layers need sums between them.
#pragma once

#include <utility>

#include "apps/step/rank_sum.h"
#include "net/layer.h"

namespace lockstep {

/// Used by the computing thread.
class Lanes : public RankSum {
 public:
  virtual int count() const { return 1; }
  /// The stream of lane `lane`; `computing` is the stream of the computing thread.
  virtual Stream& stream(int /*lane*/, Stream& computing) { return computing; }
  /// Sums over all shards of the step, for layers. Null: layers see their own shard only.
  virtual AcrossShards* across(int /*lane*/) { return nullptr; }
  /// Does all work that streams of lanes were given. Throws Error if a message fails.
  virtual void run() {}
  /// Throws errors that sums in streams have met.
  virtual void look() {}

  /// Calls `next` when the work that the lane was given before is done, or has been given.
  template <class Next>
  void then(int lane, Next next) {
    if (Stream* later = queue(lane))
      later->give(std::move(next));
    else
      next();
  }

 protected:
  /// Holds the lane's work until run(). Null: work is given at once.
  virtual Stream* queue(int /*lane*/) { return nullptr; }
};

}  // namespace lockstep
