// Two threads share the reducer. covered_ and ready_ belong to the compute thread, which only
// raises them until finish() ends the step. All that moves sums lies behind mutex_. In the backward
// pass the compute thread only tries that mutex, because its holder may be inside a callback.
// Nothing is lost if the try fails. The holder starts all buckets below ready_ before it rests, and
// a later bucket changes calls_.
#include "collectives/buckets.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "collectives/comm/flight_recorder.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/floating_point.h"
#include "src/base/round_up.h"
#include "src/base/timeline.h"

namespace lockstep {
namespace {

/// Pause of the communication thread when no sum was completed: short against the transfer of a
/// bucket, long against a look.
constexpr auto kNap = std::chrono::microseconds(50);

/// The largest gap between ready ranges: parameters are aligned to 16 elements, and 16 elements are
/// before the first.
constexpr std::int64_t kMostGap = 16;

/// Adds its lifetime to GradientBuckets::callbacks_ns_, also if the callback throws.
class CallbackTime {
 public:
  CallbackTime(std::atomic<std::int64_t>& sum_ns, std::int64_t began_ns) : sum_ns_(sum_ns) {
    sum_ns_ -= began_ns;
  }
  ~CallbackTime() { sum_ns_ += now_ns(); }

 private:
  std::atomic<std::int64_t>& sum_ns_;
};

}  // namespace

/// Lengths count from the begin of the bucket, so that it is one range of memory, with the gaps
/// between its parts.
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
    const std::int64_t piece = round_up(ceil_div(part.count, pieces), 16);
    for (std::int64_t begin = part.begin; begin < part.end(); begin += piece) {
      buckets.push_back({begin, std::min(piece, part.end() - begin)});
    }
    if (part.count == 0) buckets.push_back(part);
  }
  return buckets;
}

std::int64_t bucket_bytes(int hosts, const Link& link, std::int64_t gradients) {
  // Solves 2 (P-1)/P bytes / bandwidth = kTimes * 2 log2(P) latency for the bytes.
  constexpr double kTimes = 10, kShortest = 64 << 10, kWorthWhile = 1 << 20, kMost = 16 << 20;
  const double p = hosts;
  const double bytes = kTimes * std::log2(p) * p / (p - 1) * link.latency * link.bandwidth;
  const double most = std::clamp(static_cast<double>(gradients) / 4, kShortest, kMost);
  const double taken = std::clamp(bytes, std::min(kWorthWhile, most), most);
  return std::int64_t{1} << std::lround(std::floor(std::log2(taken)));
}

std::int64_t device_bucket_bytes(std::int64_t count) {
  constexpr std::int64_t kLeast = 1 << 20, kMost = 8 << 20;
  return std::clamp(count * static_cast<std::int64_t>(sizeof(float)) / 8, kLeast, kMost);
}

/// Adds its lifetime without callbacks to exposed_.
class GradientBuckets::Exposed {
 public:
  explicit Exposed(GradientBuckets& buckets)
      : buckets_(buckets), callbacks_(buckets.callback_seconds()) {}
  ~Exposed() {
    const double callbacks = buckets_.callback_seconds() - callbacks_;
    buckets_.exposed_ += now_seconds() - began_ - callbacks;
  }

 private:
  GradientBuckets& buckets_;
  double began_ = now_seconds();
  double callbacks_;
};

GradientBuckets::GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy,
                                 Reduced reduced, RankRecorder* recorder, Track* track)
    : reducer_(reducer),
      buckets_(std::move(buckets)),
      policy_(policy),
      reduced_(std::move(reduced)),
      recorder_(recorder),
      track_(track),
      complete_(buckets_.size()),
      started_ns_(track == nullptr ? 0 : buckets_.size()) {
  if (policy == Policy::thread) thread_ = std::jthread([this](std::stop_token stop) { run(stop); });
}

GradientBuckets::~GradientBuckets() {
  // A stop request does not end calls_.wait(). The thread reads calls_ before it looks at the
  // request, so that it cannot sleep through both.
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
  std::size_t count = ready_;
  for (; count < buckets_.size() && buckets_[count].end() <= covered_; ++count)
    reducer_.written(static_cast<int>(count), writer);
  if (count == ready_) return;
  ready_ = count;
  wake();
  // After wake(), so that the other thread sees the bucket if it has the mutex now.
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) guarded([&] { start_ready(); });
}

void GradientBuckets::advance() {
  if (policy_ != Policy::poll && policy_ != Policy::thread) return;
  const Exposed exposed(*this);
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock) guarded([&] { pump(); });
}

void GradientBuckets::finish() {
  const Exposed exposed(*this);
  require(
      ready_ == buckets_.size(),
      "GradientBuckets::finish() was called when only {} of {} buckets were ready. Call ready() "
      "for all elements first.",
      ready_.load(), buckets_.size());
  // The other thread could keep the mutex for as long as buckets complete. It leaves its loop when
  // it sees this, and sleeps without the mutex.
  finishing_ = true;
  const std::lock_guard lock(mutex_);
  guarded([&] {
    start_ready();
    wait_for_all();
    complete_.assign(buckets_.size(), false);
    started_ = completed_ = 0;
    ready_ = 0;
  });
  finishing_ = false;
  covered_ = 0;
}

/// Under the mutex. Rethrows an earlier error instead of the work.
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

void GradientBuckets::between_steps(const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  guarded(work);
}

void GradientBuckets::wake() {
  ++calls_;
  calls_.notify_one();
}

void GradientBuckets::start_ready() {
  for (; started_ < ready_; ++started_) {
    if (track_ != nullptr) started_ns_[started_] = now_ns();
    reducer_.start(static_cast<int>(started_));
  }
  // In a stream the callback is due at once. Its work waits there for the sum, and no thread does.
  if (reducer_.traits().in_stream) complete_done();
}

/// Moves sums on without blocking. Returns whether a bucket was completed.
bool GradientBuckets::pump() {
  start_ready();
  reducer_.advance();
  return complete_done();
}

bool GradientBuckets::complete_done() {
  bool any = false;
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    const int number = static_cast<int>(bucket);
    if (complete_[bucket] || !reducer_.done(number)) continue;
    complete_[bucket] = any = true;
    ++completed_;
    const std::int64_t began = now_ns();
    if (track_ != nullptr) {
      track_->add("bucket", static_cast<std::int64_t>(bucket),
                  std::max(started_ns_[bucket], traced_ns_), began);
    }
    {
      const CallbackTime time(callbacks_ns_, began);
      reduced_(number, buckets_[bucket]);
    }
    if (track_ != nullptr) traced_ns_ = now_ns();  // after the spans of the callback
  }
  return any;
}

void GradientBuckets::wait_for_all() {
  // The awaited bucket may complete others on the way. complete_done() therefore looks at all of
  // them, and their updates overlap with the sums that are left.
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    if (complete_[bucket]) continue;
    if (recorder_ != nullptr) {
      recorder_->waiting(
          fmt::format("bucket {} of the reducer {}", bucket, reducer_.traits().name));
    }
    reducer_.finish(static_cast<int>(bucket));
    complete_done();
  }
}

/// Any thread. Includes the callback that runs now.
double GradientBuckets::callback_seconds() const {
  // The sum and the clock must belong together. If a callback ends between the two reads, the
  // negative begin would meet a clock behind its end. The pair is then read again.
  std::int64_t sum, now;
  do {
    sum = callbacks_ns_;
    now = now_ns();
  } while (sum != callbacks_ns_);
  return static_cast<double>(sum < 0 ? sum + now : sum) * 1e-9;
}

/// Body of the communication thread.
void GradientBuckets::run(std::stop_token stop) {
  use_default_floating_point();
  try {
    for (;;) {
      const std::uint32_t calls = calls_;  // read before the state that a call changes
      if (stop.stop_requested()) return;
      if (pump_while_busy())
        std::this_thread::sleep_for(kNap);
      else
        calls_.wait(calls);
    }
  } catch (...) {  // the compute thread rethrows it
  }
}

/// Moves sums on while buckets complete or become ready. Returns whether others are left.
bool GradientBuckets::pump_while_busy() {
  const std::lock_guard lock(mutex_);
  const auto busy = [&] { return completed_ < ready_; };
  guarded([&] {
    while (busy() && !finishing_ && (pump() || started_ < ready_)) continue;
  });
  return busy();
}

}  // namespace lockstep
