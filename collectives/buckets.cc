#include "collectives/buckets.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/round_up.h"

namespace lockstep {
namespace {

/// How long the communication thread leaves its core to others when no sum was completed: short
/// against the transfer of a bucket, long against a look.
constexpr auto kNap = std::chrono::microseconds(50);

/// Parameters are aligned to 16 elements and 16 lie before the first: no larger gap may be between
/// ready ranges.
constexpr std::int64_t kMostGap = 16;

}  // namespace

std::vector<Range> cut_buckets(const std::vector<Range>& parts, std::int64_t bytes) {
  const std::int64_t most = bytes / static_cast<std::int64_t>(sizeof(float));
  const std::int64_t longest = std::max(most, kLeastSplit);
  std::vector<Range> buckets;
  for (const Range& part : parts) {
    const bool last = &part == &parts.back();
    if (!buckets.empty() && !last && part.end() - buckets.back().begin <= most) {
      buckets.back().count = part.end() - buckets.back().begin;
      continue;
    }
    const std::int64_t pieces = std::max<std::int64_t>(ceil_div(part.count, longest), 1);
    const std::int64_t piece = (part.count + 16 * pieces - 1) / (16 * pieces) * 16;
    for (std::int64_t begin = part.begin; begin < part.end(); begin += piece) {
      buckets.push_back({begin, std::min(piece, part.end() - begin)});
    }
    if (part.count == 0) buckets.push_back(part);
  }
  return buckets;
}

std::int64_t bucket_bytes(int hosts, const Link& link, std::int64_t gradients) {
  constexpr double kTimes = 10, kShortest = 64 << 10, kWorthWhile = 1 << 20, kMost = 16 << 20;
  const double p = hosts;
  const double bytes = kTimes * std::log2(p) * p / (p - 1) * link.latency * link.bandwidth;
  const double most = std::clamp(static_cast<double>(gradients) / 4, kShortest, kMost);
  const double taken = std::clamp(bytes, std::min(kWorthWhile, most), most);
  return std::int64_t{1} << std::lround(std::floor(std::log2(taken)));
}

/// Adds the time it lives, callbacks not counted.
class GradientBuckets::Exposed {
 public:
  explicit Exposed(GradientBuckets& buckets)
      : buckets_(buckets), callbacks_(buckets.engine_.callback_seconds()) {}
  ~Exposed() {
    const double callbacks = buckets_.engine_.callback_seconds() - callbacks_;
    buckets_.exposed_ += now_seconds() - began_ - callbacks;
  }

 private:
  GradientBuckets& buckets_;
  double began_ = now_seconds();
  double callbacks_;
};

GradientBuckets::GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy,
                                 Reduced reduced, Record* record, Lane* lane)
    : engine_(reducer, std::move(buckets), std::move(reduced), record, lane), policy_(policy) {
  if (policy == Policy::thread) thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

GradientBuckets::~GradientBuckets() {
  thread_.request_stop();
  wake();
}

void GradientBuckets::ready(Range range, Stream& writer) {
  const Exposed exposed(*this);
  require(range.begin >= covered_ && range.begin - covered_ <= kMostGap,
          "GradientBuckets::ready() got elements from {} on after those before {}. Pass them in "
          "order.",
          range.begin, covered_);
  covered_ = range.end();
  const std::vector<Range>& all = buckets();
  std::size_t count = ready_;
  for (; count < all.size() && all[count].end() <= covered_; ++count)
    engine_.written(count, writer);
  if (count == ready_) return;
  ready_ = count;
  wake();
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) guarded([&] { engine_.start(ready_); });
}

void GradientBuckets::advance() {
  if (policy_ != Policy::poll && policy_ != Policy::thread) return;
  const Exposed exposed(*this);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) guarded([&] { turn(); });
}

void GradientBuckets::finish() {
  const Exposed exposed(*this);
  require(
      ready_ == buckets().size(),
      "GradientBuckets::finish() was called when only {} of {} buckets were ready. Call ready() "
      "for all elements first.",
      ready_.load(), buckets().size());
  finishing_ = true;
  const std::lock_guard lock(mutex_);
  guarded([&] {
    engine_.start(ready_);
    engine_.finish();
    engine_.rewind();
    ready_ = 0;
  });
  finishing_ = false;
  covered_ = 0;
}

/// Under the mutex. An error that was thrown once is thrown again, and no work is done.
template <class Work>
void GradientBuckets::guarded(Work work) {
  if (error_) std::rethrow_exception(error_);
  try {
    work();
  } catch (...) {
    error_ = std::current_exception();
    throw;
  }
}

void GradientBuckets::wake() {
  ++calls_;
  calls_.notify_one();
}

bool GradientBuckets::turn() {
  engine_.start(ready_);
  return engine_.turn();
}

/// The thread.
void GradientBuckets::run(std::stop_token stop) {
  try {
    for (;;) {
      const std::uint32_t calls = calls_;  // before all that a call may have changed
      if (stop.stop_requested()) return;
      if (look())
        std::this_thread::sleep_for(kNap);
      else
        calls_.wait(calls);
    }
  } catch (...) {  // the compute thread will meet it
  }
}

/// Moves on as long as sums are completed or made ready; whether there are others.
bool GradientBuckets::look() {
  const std::lock_guard lock(mutex_);
  const auto busy = [&] { return engine_.completed() < ready_; };
  guarded([&] {
    while (busy() && !finishing_ && (turn() || engine_.started() < ready_)) continue;
  });
  return busy();
}

}  // namespace lockstep
