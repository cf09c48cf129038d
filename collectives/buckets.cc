#include "collectives/buckets.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

#include "collectives/progress_engine.h"
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

/// Turns an engine while the compute thread is inside a layer. The compute thread turns it too, for
/// whoever computes has a core, and a thread that wakes up may have to wait for one: on two cores,
/// both computing, the first bucket began up to 3 ms late that way. One of them at a time, under
/// one mutex, and neither once the engine has thrown.
class CommunicationThread {
 public:
  explicit CommunicationThread(ProgressEngine& engine)
      : engine_(engine), thread_([this](std::stop_token stop) { run(stop); }) {}
  ~CommunicationThread() {
    thread_.request_stop();
    wake();
  }

  /// Compute thread: the first `count` buckets are ready. Waits for nobody.
  void ready(std::size_t count) {
    ready_ = count;
    wake();
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) guarded([&] { engine_.start(ready_); });
  }

  /// Compute thread: moves on, unless the other does so now.
  void advance() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (lock) guarded([&] { turn(); });
  }

  /// Compute thread: all that is ready is completed, and the engine rewound. The other sleeps
  /// meanwhile.
  void finish() {
    finishing_ = true;
    const std::lock_guard lock(mutex_);
    guarded([&] {
      engine_.start(ready_);
      engine_.finish();
      engine_.rewind();
      ready_ = 0;
    });
    finishing_ = false;
  }

 private:

  void wake() {
    ++calls_;
    calls_.notify_one();
  }

  bool turn() {
    engine_.start(ready_);
    return engine_.turn();
  }

  /// Under the mutex. What was thrown once is thrown again, and no work is done.
  template <class Work>
  void guarded(Work work) {
    if (error_) std::rethrow_exception(error_);
    try {
      work();
    } catch (...) {
      error_ = std::current_exception();
      throw;
    }
  }

  void run(std::stop_token stop) {
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
  bool look() {
    const std::lock_guard lock(mutex_);
    const auto busy = [&] { return engine_.completed() < ready_; };
    guarded([&] {
      while (busy() && !finishing_ && (turn() || engine_.started() < ready_)) continue;
    });
    return busy();
  }

  ProgressEngine& engine_;
  std::mutex mutex_;
  std::atomic<std::size_t> ready_ = 0;    ///< buckets of this step, started or not
  std::atomic<std::uint32_t> calls_ = 0;  ///< grows whenever there is something to look at
  std::atomic<bool> finishing_ = false;   ///< the compute thread wants it all for itself
  std::exception_ptr error_;              ///< of whichever thread
  std::jthread thread_;                   ///< last: it is joined before what it uses goes
};

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

struct GradientBuckets::Body {
  ProgressEngine engine;
  Policy policy;
  std::unique_ptr<CommunicationThread> thread;  ///< policy thread only
  std::int64_t covered = 0;                     ///< gradients below are written
  std::size_t ready = 0;                        ///< buckets below are
  double exposed = 0;

  /// Adds the time it lives, callbacks not counted.
  class Exposed {
   public:
    explicit Exposed(Body& body) : body_(body), callbacks_(body.engine.callback_seconds()) {}
    ~Exposed() {
      const double callbacks = body_.engine.callback_seconds() - callbacks_;
      body_.exposed += now_seconds() - began_ - callbacks;
    }

   private:
    Body& body_;
    double began_ = now_seconds();
    double callbacks_;
  };
};

GradientBuckets::GradientBuckets(Reducer& reducer, std::vector<Range> buckets, Policy policy,
                                 Reduced reduced, Record* record, Lane* lane)
    : body_(
          new Body{ProgressEngine(reducer, std::move(buckets), std::move(reduced), record, lane),
                   policy, nullptr}) {
  if (policy == Policy::thread)
    body_->thread = std::make_unique<CommunicationThread>(body_->engine);
}

GradientBuckets::~GradientBuckets() = default;

void GradientBuckets::ready(Range range, Stream& writer) {
  const Body::Exposed exposed(*body_);
  Body& body = *body_;
  require(range.begin >= body.covered && range.begin - body.covered <= kMostGap,
          "GradientBuckets::ready() got elements from {} on after those before {}. Pass them in "
          "order.",
          range.begin, body.covered);
  body.covered = range.end();
  const std::vector<Range>& all = buckets();
  const std::size_t before = body.ready;
  for (; body.ready < all.size() && all[body.ready].end() <= body.covered; ++body.ready)
    body.engine.written(body.ready, writer);
  if (body.ready == before) return;
  if (body.thread)
    body.thread->ready(body.ready);
  else
    body.engine.start(body.ready);
}

void GradientBuckets::advance() {
  Body& body = *body_;
  if (body.policy != Policy::poll && !body.thread) return;
  const Body::Exposed exposed(body);
  if (body.thread)
    body.thread->advance();
  else
    body.engine.turn();
}

void GradientBuckets::finish() {
  const Body::Exposed exposed(*body_);
  Body& body = *body_;
  require(
      body.ready == buckets().size(),
      "GradientBuckets::finish() was called when only {} of {} buckets were ready. Call ready() "
      "for all elements first.",
      body.ready, buckets().size());
  if (body.thread) {
    body.thread->finish();
  } else {
    body.engine.finish();
    body.engine.rewind();
  }
  body.covered = 0;
  body.ready = 0;
}

double GradientBuckets::exposed_seconds() const { return body_->exposed; }
const std::vector<Range>& GradientBuckets::buckets() const { return body_->engine.buckets(); }

}  // namespace lockstep
