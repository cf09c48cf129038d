// ShardsTogether: the shards of a rank that go through the model side by side, since its layers
// want sums over all shards of the step (net/layer.h, AcrossShards): synchronised batch norm.
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
#include <functional>
#include <memory>
#include <vector>

#include "collectives/reducer.h"
#include "net/layer.h"

namespace lockstep {

class Record;

/// The places of the sums that layers with the statistics of `layout` ask for, as buckets of a
/// reducer of so many elements: one for each length. Empty: there are no statistics.
std::vector<Range> places_of_sums(const Layout& layout);

/// Used by the computing thread.
class ShardsTogether {
 public:
  /// `shards` of each of `ranks`. `reducer` was made for `places`; `record`, if any, is told while
  /// this rank waits for others. Several shards want memory that is the host's.
  ShardsTogether(Device& device, std::unique_ptr<Reducer> reducer, std::vector<Range> places,
                 int ranks, int shards, Record* record = nullptr);
  ~ShardsTogether();

  /// Of this rank.
  int shards() const;
  /// Where the work of own shard `shard` is given; `computing` where there is but one.
  Stream& stream(int shard, Stream& computing) const;
  /// Calls `next` when the work that the shard was given before is done; at once where that needs
  /// no run().
  void then(int shard, std::function<void()> next);
  AcrossShards& across(int shard) const;
  /// Does all work that stream() was given; between two sums, that of shard 0 first.
  void run();
  /// Throws what has become of sums that are in streams.
  void look();

  /// Spent in sums over the ranks, since construction.
  double seconds() const;
  std::size_t bytes() const;

 private:
  class Ranks;
  class Queue;
  std::unique_ptr<Ranks> ranks_;
  std::vector<std::unique_ptr<Queue>> queues_;  ///< by shard, of several
};

}  // namespace lockstep
