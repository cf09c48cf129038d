// SyncBatchNorm: the shards of a rank go through the model side by side, because batch norm needs
// sums over all shards of the step (net/layer.h, AcrossShards).
//
// With one shard on each rank its work goes straight to the computing thread's stream, and a sum is
// a bucket of a reducer of its own, given there too. With several, in memory of the host alone, the
// work of each is written down in a queue; run() does one after the other up to its next sum, where
// they meet, and so on:
//
//   shard 0   work, sum, work, sum, ...
//   shard 1   work, sum, work, sum, ...     done: work 0, work 1, the sum, work 0, work 1, the sum
//
// The shards of a rank are added in the canonical order (collectives/schedule.h), and so are ranks
// where the reducer does that.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "apps/step/lanes.h"
#include "collectives/reducer.h"

namespace lockstep {

class Record;

/// The places of the sums that layers with the statistics of `layout` ask for, as buckets of a
/// reducer of so many elements: one for each length. Empty: there are no statistics.
std::vector<Range> places_of_sums(const Layout& layout);

class SyncBatchNorm : public Lanes {
 public:
  /// `shards` of each of `ranks`. `reducer` was made for `places`; `record`, if any, is told while
  /// this rank waits for others. Several shards want memory that is the host's.
  SyncBatchNorm(Device& device, std::unique_ptr<Reducer> reducer, std::vector<Range> places,
                int ranks, int shards, Record* record = nullptr);
  ~SyncBatchNorm() override;

  int count() const override;
  Stream& stream(int lane, Stream& computing) override;
  AcrossShards* across(int lane) override;
  /// Between two sums, the work of lane 0 comes first.
  void run() override;
  void look() override;
  double seconds() const override;
  std::size_t bytes() const override;

 private:
  Stream* queue(int lane) override;

  class Ranks;
  class Queue;
  std::unique_ptr<Ranks> ranks_;
  std::vector<std::unique_ptr<Queue>> queues_;  ///< by lane; empty if there is only one
};

}  // namespace lockstep
