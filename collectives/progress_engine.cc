#include "collectives/progress_engine.h"

#include <utility>

#include "collectives/flight_recorder.h"
#include "src/clock.h"

namespace lockstep {

ProgressEngine::ProgressEngine(Reducer& reducer, std::vector<Range> buckets, Reduced reduced,
                               Record* record)
    : reducer_(reducer),
      buckets_(std::move(buckets)),
      reduced_(std::move(reduced)),
      record_(record),
      complete_(buckets_.size()) {
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    phases_.push_back(fmt::format("bucket {} of the reducer {}", bucket, reducer.name()));
  }
}

void ProgressEngine::start(std::size_t count) {
  for (; started_ < count; ++started_) reducer_.start(static_cast<int>(started_));
  if (reducer_.in_stream()) complete_done();
}

bool ProgressEngine::turn() {
  reducer_.advance();
  return complete_done();
}

void ProgressEngine::finish() {
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    if (complete_[bucket]) continue;
    if (record_ != nullptr) record_->waiting(phases_[bucket]);
    reducer_.finish(static_cast<int>(bucket));
    complete_done();
  }
}

bool ProgressEngine::complete_done() {
  bool any = false;
  for (std::size_t bucket = 0; bucket < started_; ++bucket) {
    if (complete_[bucket] || !reducer_.done(static_cast<int>(bucket))) continue;
    complete_[bucket] = any = true;
    ++completed_;
    const std::int64_t began = now_ns();
    callback_began_ns_ = began;
    reduced_(static_cast<int>(bucket), buckets_[bucket]);
    callbacks_ns_ += now_ns() - began;
    callback_began_ns_ = 0;
  }
  return any;
}

void ProgressEngine::rewind() {
  complete_.assign(buckets_.size(), false);
  started_ = completed_ = 0;
}

double ProgressEngine::callback_seconds() const {
  const std::int64_t began = callback_began_ns_;
  return static_cast<double>(callbacks_ns_ + (began == 0 ? 0 : now_ns() - began)) * 1e-9;
}

}  // namespace lockstep
