// GradientBuckets: between the backward pass, which fills ranges of the gradient arena, and the
// reducer, which wants whole buckets. Who turns the engine meanwhile is a Policy
// (collectives/progress.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "collectives/progress.h"
#include "collectives/reducer.h"

namespace lockstep {

class Lane;
class Record;

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

class GradientBuckets {
 public:
  /// Called once per bucket and step when its sum is in order (Reducer::done), on the thread that
  /// completed it: gives work to Reducer::stream() alone. Buckets complete in any order, one call
  /// at a time.
  using Reduced = std::function<void(int bucket, Range range)>;

  /// `buckets`: those that `reducer` was made for. `record`, if any, is told in finish() which
  /// bucket this rank waits for. `lane`, if any, gets a span for each bucket.
  GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy, Reduced reduced,
                  Record* record = nullptr, Lane* lane = nullptr);
  /// Stops the thread. In the middle of a step the sums under way are given up: only on the way to
  /// the end of the run.
  ~GradientBuckets();

  /// Compute thread: the work that writes the gradients of `range` has been given to `writer`.
  /// Ranges come in arena order without gaps beyond alignment; a bucket starts when its last
  /// element is covered, or when the other thread is done with a look or a callback. Waits for
  /// nobody.
  void ready(Range range, Stream& writer);
  /// Compute thread: a good moment to move things on (policies poll and thread). Waits for nobody.
  void advance();
  /// Compute thread: returns when every bucket of this step is reduced and its callback has
  /// returned. Rethrows what the thread policy's thread threw, which ready() and advance() may do before.
  void finish();

  /// Seconds that the compute thread has spent in ready(), advance() and finish(), callbacks not
  /// counted, whoever ran them: the communication that was not hidden. Since construction.
  double exposed_seconds() const;
  const std::vector<Range>& buckets() const;

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace lockstep
