// ProgressEngine: starts buckets, moves them on, calls back for those that hold their sum. The
// compute thread or a thread of the buckets turns it (collectives/buckets.h).
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "collectives/reducer.h"

namespace lockstep {

class Lane;
class Record;

/// One thread at a time, but for written() and callback_seconds().
class ProgressEngine {
 public:
  using Reduced = std::function<void(int bucket, Range range)>;

  /// `buckets`: those that `reducer` was made for. `lane`, if any, gets a span "bucket N" from its
  /// start, or from the end of the sum that was done before it, to the end of its own: sums share
  /// one wire, and spans of a lane do not overlap.
  ProgressEngine(Reducer& reducer, std::vector<Range> buckets, Reduced reduced, Record* record,
                 Lane* lane = nullptr);

  const std::vector<Range>& buckets() const { return buckets_; }
  std::size_t started() const { return started_; }
  std::size_t completed() const { return completed_; }

  /// Compute thread: Reducer::written.
  void written(std::size_t bucket, Stream& writer) {
    reducer_.written(static_cast<int>(bucket), writer);
  }
  /// Starts the buckets below number `count` that have not been started in this step, and completes
  /// those that are done by being started.
  void start(std::size_t count);
  /// Moves on without blocking. Returns whether a bucket was completed.
  bool turn();
  /// Blocks until all started buckets are completed; the record says which one it waits for.
  void finish();
  /// The next step begins: no bucket is started.
  void rewind();

  /// Seconds spent in callbacks since construction, the one that runs now included. Any thread.
  double callback_seconds() const;

 private:
  bool complete_done();
  void tell_lane(std::size_t bucket, std::int64_t end_ns);

  Reducer& reducer_;
  std::vector<Range> buckets_;
  Reduced reduced_;
  Record* record_;
  Lane* lane_;
  std::vector<std::int64_t> started_ns_;  ///< by bucket, where there is a lane
  std::int64_t told_ns_ = 0;              ///< end of the span that the lane was told last
  std::vector<std::string> phases_;       ///< by bucket: what the record is told
  std::vector<bool> complete_;            ///< by bucket
  std::size_t started_ = 0, completed_ = 0;
  /// Of those that have returned, less the time when the one began that runs now: negative then.
  std::atomic<std::int64_t> callbacks_ns_ = 0;
};

}  // namespace lockstep
