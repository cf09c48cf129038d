#include "collectives/progress_engine.h"

#include <algorithm>
#include <utility>

#include "collectives/comm/flight_recorder.h"
#include "src/base/timeline.h"

namespace lockstep {
namespace {

/// Adds the time it lives, less the clock while it does (ProgressEngine::callbacks_ns_).
class CallbackTime {
 public:
  CallbackTime(std::atomic<std::int64_t>& sum_ns, std::int64_t began_ns) : sum_ns_(sum_ns) {
    sum_ns_ -= began_ns;
  }
  ~CallbackTime() { sum_ns_ += now_ns(); }
  CallbackTime(const CallbackTime&) = delete;
  CallbackTime& operator=(const CallbackTime&) = delete;

 private:
  std::atomic<std::int64_t>& sum_ns_;
};

}  // namespace

ProgressEngine::ProgressEngine(Reducer& reducer, std::vector<Range> buckets,
                               std::vector<AllGather*> gathered, Reduced reduced, Record* record,
                               Lane* lane)
    : reducer_(reducer),
      buckets_(std::move(buckets)),
      gathered_(std::move(gathered)),
      reduced_(std::move(reduced)),
      record_(record),
      lane_(lane),
      started_ns_(lane == nullptr ? 0 : buckets_.size()),
      complete_(buckets_.size()) {
  gathered_.resize(buckets_.size());
  int summed = 0;
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    const bool gathered = gathered_[bucket] != nullptr;
    phases_.push_back(
        gathered ? fmt::format("bucket {}, which all ranks gather", bucket)
                 : fmt::format("bucket {} of the reducer {}", bucket, reducer.traits().name));
    summed_.push_back(gathered ? -1 : summed++);
  }
}

void ProgressEngine::start(std::size_t count) {
  for (; started_ < count; ++started_) {
    if (lane_ != nullptr) started_ns_[started_] = now_ns();
    if (AllGather* gather = gathered_[started_])
      gather->start();
    else
      reducer_.start(summed_[started_]);
  }
  if (reducer_.traits().in_stream) complete_done();
}

bool ProgressEngine::turn() {
  reducer_.advance();
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    if (gathered_[bucket] != nullptr && !complete_[bucket]) gathered_[bucket]->advance();
  }
  return complete_done();
}

void ProgressEngine::finish(std::size_t count) {
  for (std::size_t bucket = 0; bucket < count; ++bucket) {
    if (complete_[bucket]) continue;
    if (record_ != nullptr) record_->waiting(phases_[bucket]);
    wait_for(bucket);
    complete_done();
  }
}

void ProgressEngine::wait_for(std::size_t bucket) {
  AllGather* gather = gathered_[bucket];
  if (gather == nullptr) return reducer_.finish(summed_[bucket]);
  backoff_.begin();
  while (!gather->advance()) {
    reducer_.advance();
    complete_done();
    backoff_.between();
  }
}

bool ProgressEngine::done(std::size_t bucket) const {
  const AllGather* gather = gathered_[bucket];
  return gather == nullptr ? reducer_.done(summed_[bucket]) : gather->done();
}

bool ProgressEngine::complete_done() {
  bool any = false;
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    if (complete_[bucket] || !done(bucket)) continue;
    complete_[bucket] = any = true;
    ++completed_;
    const std::int64_t began = now_ns();
    if (lane_ != nullptr) tell_lane(bucket, began);
    {
      const CallbackTime time(callbacks_ns_, began);
      reduced_(static_cast<int>(bucket), buckets_[bucket]);
    }
    if (lane_ != nullptr) told_ns_ = now_ns();  // what the callback told is before the next one
  }
  return any;
}

void ProgressEngine::tell_lane(std::size_t bucket, std::int64_t end_ns) {
  lane_->add("bucket", static_cast<std::int64_t>(bucket), std::max(started_ns_[bucket], told_ns_),
             end_ns);
}

void ProgressEngine::rewind() {
  complete_.assign(buckets_.size(), false);
  started_ = completed_ = 0;
}

double ProgressEngine::callback_seconds() const {
  std::int64_t sum, now;
  do {
    sum = callbacks_ns_;
    now = now_ns();
  } while (sum != callbacks_ns_);
  return static_cast<double>(sum < 0 ? sum + now : sum) * 1e-9;
}

}  // namespace lockstep
