// GradientBuckets: starts the all-reduce of each bucket as soon as the backward pass has written
// it, moves the sums on, and calls back for each that is done. A Policy (collectives/progress.h)
// selects the thread that does so.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "collectives/progress.h"
#include "collectives/reducer.h"

namespace lockstep {

class Track;
class RankRecorder;

/// No bucket of up to this many elements is split: a message would cost more than it brings.
inline constexpr std::int64_t kLeastSplit = 16 << 10;

/// Bytes of fp32 buckets between `hosts` hosts, at least two. Their sums spend ten times as long on
/// bytes as on latencies, by the cost of recursive halving and doubling: 2 log2 P latencies, and 2
/// (P-1)/P of the bytes. A power of two from 1 MiB to 16 MiB, because messages cost the processor
/// too: 64 KiB at 1 Gbit/s trained 4 to 8 % slower than 1 MiB. At most a quarter of all `gradients`
/// (bytes), but at least 64 KiB, so that sums begin during the backward pass.
std::int64_t bucket_bytes(int hosts, const Link& link, std::int64_t gradients);

/// Bytes of fp32 buckets in memory of GPUs, for `count` gradients. A sum of NCCL has a latency of
/// 20 us, in which NVLink moves 4 MiB. 1 to 8 MiB, and an eighth of all gradients in between, so
/// that sums begin during the backward pass.
std::int64_t device_bucket_bytes(std::int64_t count);

/// Cuts consecutive `parts` (the parameters of each layer, in the order in which their gradients
/// become ready) into buckets of about `bytes` fp32 bytes. A bucket ends before the part that would
/// exceed `bytes`. A part that alone is longer is split into equal buckets, at multiples of 16
/// elements from its begin. The last part begins a bucket, because no backward pass is left to hide
/// its sum.
std::vector<Range> cut_buckets(const std::vector<Range>& parts, std::int64_t bytes);

/// One step after another: ready() for all elements, then finish(). The calls come from the compute
/// thread. Under the policy thread a second thread moves the sums on while the compute thread is
/// inside a layer. The compute thread moves them too, because it has a core: a thread that wakes up
/// may have to wait for one. On two busy cores the first bucket began up to 3 ms late that way. One
/// thread at a time moves sums, under one mutex, and none after an error.
class GradientBuckets {
 public:
  using Reduced = std::function<void(int bucket, Range range)>;

  /// `buckets`: those of `reducer`. `reduced` is called once per bucket and step when its sum is in
  /// order (Reducer::done), on the thread that completed it. It enqueues work only in
  /// Reducer::stream(). Buckets complete in any order, one call at a time. `recorder`: null, or
  /// gets the bucket for which finish() waits. `track`: null, or gets a span "bucket N" for each
  /// sum. Sums share one wire, so that a span begins at the end of the previous sum if that is
  /// later.
  GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy, Reduced reduced,
                  RankRecorder* recorder = nullptr, Track* track = nullptr);
  /// Stops the thread. In the middle of a step it abandons the sums under way, which is allowed
  /// only on the way to the end of the run.
  ~GradientBuckets();

  /// The work that writes the gradients of `range` is enqueued in `writer`. Ranges come in arena
  /// order without gaps except for alignment; else throws Error. A bucket starts when its last
  /// element is covered, or when the other thread has released the mutex. Never waits.
  void ready(Range range, Stream& writer);
  /// A good moment to move sums on (policies poll and thread). Never waits.
  void advance();
  /// Returns when every bucket of this step is reduced and its callback has returned. Rethrows
  /// errors of the thread, as ready() and advance() do. Throws Error if an element is not ready.
  void finish();

  /// Calls `work`, which may use the reducer, while no other thread does. Between two steps.
  void between_steps(const std::function<void()>& work);

  /// Seconds that the compute thread has spent in ready(), advance() and finish() since
  /// construction, without callbacks: the exposed communication.
  double exposed_seconds() const { return exposed_; }
  const std::vector<Range>& buckets() const { return buckets_; }

 private:
  class Exposed;
  template <class Work>
  void guarded(Work work);
  void wake();
  void start_ready();
  bool pump();
  bool complete_done();
  void wait_for_all();
  double callback_seconds() const;
  void run(std::stop_token stop);
  bool pump_while_busy();

  Reducer& reducer_;
  const std::vector<Range> buckets_;
  const Policy policy_;
  const Reduced reduced_;
  RankRecorder* const recorder_;
  Track* const track_;
  std::int64_t covered_ = 0;  ///< gradients below are written
  double exposed_ = 0;
  std::mutex mutex_;  ///< of all that moves sums, up to traced_ns_
  std::size_t started_ = 0, completed_ = 0;
  std::vector<bool> complete_;            ///< by bucket
  std::vector<std::int64_t> started_ns_;  ///< by bucket; empty without a track
  std::int64_t traced_ns_ = 0;            ///< end of the last span in the track
  std::atomic<std::size_t> ready_ = 0;    ///< buckets of this step, started or not
  std::atomic<std::uint32_t> calls_ = 0;  ///< grows when there is something to look at
  std::atomic<bool> finishing_ = false;   ///< the compute thread wants the mutex
  /// Time in callbacks that have returned, minus the begin of one that runs now: negative then.
  std::atomic<std::int64_t> callbacks_ns_ = 0;
  std::exception_ptr error_;  ///< of either thread
  std::jthread thread_;       ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
