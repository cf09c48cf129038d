// SyncBatchNorm: the shards of a rank go through the model side by side, because batch norm needs
// sums over all shards of the step (net/layer.h, AcrossShards).
//
// With one shard on each rank, work goes straight to the computing thread's stream. A sum is a
// bucket of a separate reducer. With several shards, only in memory of the host, each has a queue
// of work. run() does one queue after the other up to its next sum, adds, and continues:
//
//   shard 0   work, sum, work, sum, ...
//   shard 1   work, sum, work, sum, ...     done: work 0, work 1, the sum, work 0, work 1, the sum
//
// The shards of a rank are added up to its roots (collectives/shares.h), and these by the reducer.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/reducer.h"
#include "net/layer.h"

namespace lockstep {

class RankRecorder;

/// The buckets of a reducer for the sums that layers with the statistics of `layout` need: one for
/// each length. Empty: there are no statistics.
std::vector<Range> buckets_of_statistics(const Layout& layout);

/// Used by the computing thread.
class SyncBatchNorm : private AcrossShards {
 public:
  /// This rank has the shards `own` of `all`; several need memory of the host. `reducer` was made
  /// for `buckets`. `recorder` learns when this rank waits for others.
  SyncBatchNorm(Device& device, std::unique_ptr<Reducer> reducer, std::vector<Range> buckets,
                Range own, int all, RankRecorder& recorder);
  ~SyncBatchNorm() override;

  /// Own shards that are under way side by side.
  int count() const;
  /// Holds the slot's work until run(). Null: there is one slot, and work is enqueued at once.
  Stream* queue(int slot);
  /// Sums over all shards of the step, for the layers of the slot.
  AcrossShards* across(int slot);
  /// Does all work of the queues. Between two sums, the work of slot 0 comes first. Throws Error if
  /// a message fails.
  void run();
  /// As GradientSync.
  void rethrow_errors();
  void abort() noexcept { reducer_->abort(); }
  double seconds() const { return seconds_; }
  std::size_t bytes() const { return reducer_->traits().bytes; }

 private:
  class Queue;

  int shards() const override { return shards_; }
  /// Over the ranks, if this one has one shard.
  void sum(Stream& stream, float* values, std::int64_t count) override;
  int bucket_of(std::int64_t count) const;
  void reduce(Stream& stream, int bucket);

  Device& device_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<Range> buckets_;
  std::unique_ptr<Event> summed_;
  int shards_;  ///< of all ranks
  bool alone_;  ///< this rank has all of them
  Fold fold_;   ///< of the own shards
  RankRecorder& recorder_;
  double seconds_ = 0;
  std::vector<std::unique_ptr<Queue>> queues_;  ///< by slot; empty if there is only one
};

}  // namespace lockstep
