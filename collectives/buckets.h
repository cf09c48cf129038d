// GradientBuckets: between the backward pass, which fills ranges of the gradient arena, and the
// reducer, which wants whole buckets. Who turns the engine meanwhile is a Policy
// (collectives/progress.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "collectives/progress.h"
#include "collectives/progress_engine.h"

namespace lockstep {

/// No bucket of up to so many elements is split: a message would not be worth its start.
inline constexpr std::int64_t kLeastSplit = 16 << 10;

/// Bytes of fp32 buckets between `hosts` hosts, at least two, whose sums spend ten times as long on
/// bytes as on latencies, by the cost of recursive halving and doubling: 2 log2 P latencies, 2
/// (P-1)/P of the bytes. A power of two from 1 MiB to 16 MiB, for messages cost the processor too:
/// 64 KiB at 1 Gbit/s trained 4 to 8 % slower than 1 MiB. But no more than a quarter of all
/// `gradients` (bytes), down to 64 KiB: sums are to begin while there is a backward pass to hide
/// behind.
std::int64_t bucket_bytes(int hosts, const Link& link, std::int64_t gradients);

/// Cuts consecutive `parts` (the parameters of each layer, in the order in which their gradients
/// become ready) into buckets of about `bytes` fp32 bytes: a bucket is closed when the next part
/// would take it past `bytes`, and a part that is longer than that alone is split into equal
/// buckets, at multiples of 16 elements from its begin. The last part begins a bucket: no backward
/// pass is left to hide its sum behind, and nothing that is ready before waits for it.
std::vector<Range> cut_buckets(const std::vector<Range>& parts, std::int64_t bytes);

/// One step after another: ready() for all elements, then finish(). The calls come from the compute
/// thread. Under the policy thread a thread of its own turns the engine while the compute thread is
/// inside a layer. The compute thread turns it too, because it has a core: a thread that wakes up
/// may have to wait for one. On two cores, both computing, the first bucket began up to 3 ms late
/// that way. One of them turns at a time, under one mutex, and neither once the engine has thrown.
class GradientBuckets {
 public:
  using Reduced = ProgressEngine::Reduced;

  /// `buckets`: those that `reducer` was made for. `reduced` is called once per bucket and step
  /// when its sum is in order (Reducer::done), on the thread that completed it. It gives work only
  /// to Reducer::stream(). Buckets complete in any order, one call at a time. finish() writes to
  /// `record`, if any, which bucket this rank waits for. `lane`, if any, gets a span for each.
  GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy, Reduced reduced,
                  Record* record = nullptr, Lane* lane = nullptr);
  /// Stops the thread. In the middle of a step the sums under way are given up: only on the way to
  /// the end of the run.
  ~GradientBuckets();

  /// The work that writes the gradients of `range` has been given to `writer`. Ranges come in arena
  /// order without gaps beyond alignment; else an Error is thrown. A bucket starts when its last
  /// element is covered, or when the other thread is done with a look or a callback. Never waits.
  void ready(Range range, Stream& writer);
  /// A good moment to move things on (policies poll and thread). Never waits.
  void advance();
  /// Returns when every bucket of this step is reduced and its callback has returned. Rethrows
  /// errors of the thread, as ready() and advance() do. Throws Error if an element is not ready.
  void finish();

  /// Seconds that the compute thread has spent in ready(), advance() and finish() since
  /// construction, without callbacks: the communication that was not hidden.
  double exposed_seconds() const { return exposed_; }
  const std::vector<Range>& buckets() const { return engine_.buckets(); }

 private:
  class Exposed;
  template <class Work>
  void guarded(Work work);
  void wake();
  bool turn();
  void run(std::stop_token stop);
  bool look();

  ProgressEngine engine_;
  const Policy policy_;
  std::int64_t covered_ = 0;  ///< gradients below are written
  double exposed_ = 0;
  std::mutex mutex_;                      ///< of the engine
  std::atomic<std::size_t> ready_ = 0;    ///< buckets of this step, started or not
  std::atomic<std::uint32_t> calls_ = 0;  ///< grows whenever there is something to look at
  std::atomic<bool> finishing_ = false;   ///< the compute thread wants the engine for itself
  std::exception_ptr error_;              ///< of either thread
  std::jthread thread_;                   ///< last: it is joined before what it uses goes
};

}  // namespace lockstep
