// TrainingClock: the seconds of training, and how fast the steps of a report were. A report counts
// the steps that the device has done, because it may be ahead of those that are collected. Before
// an evaluation the host collects several steps at once, and does not know since when they are
// done. Reports of these steps have no speed, and their time belongs to the next one.
#pragma once

#include <cstdint>
#include <optional>

namespace lockstep {

/// `now`: seconds since any fixed time.
class TrainingClock {
 public:
  struct Interval {
    double seconds;
    std::int64_t steps;
  };

  void begin(double now, std::int64_t done) {
    last_ = now;
    first_done_ = last_done_ = done;
  }
  /// Seconds that were not training: evaluations and checkpoints.
  void leave_out(double seconds) { aside_ += seconds; }
  double trained(double now) const { return trained_ + now - last_ - aside_; }
  /// Steps that were done before trained() began.
  std::int64_t first_done() const { return first_done_; }

  /// A step is enqueued. The steps that are collected before the next one are collected at once.
  void enqueued() { stale_ = false; }
  /// The interval since the last one, up to a step that is collected. None: its time is not known.
  /// `done`: steps that the device has done. `waited`: it has done the step just now.
  std::optional<Interval> report(double now, std::int64_t done, bool waited) {
    if (stale_ || done == last_done_) return std::nullopt;
    const Interval interval{now - last_ - aside_, done - last_done_};
    trained_ += interval.seconds;
    last_ = now;
    last_done_ = done;
    aside_ = 0;
    stale_ = !waited;
    return interval;
  }

 private:
  /// The end of the last interval, seconds since then that were not training, and up to then.
  double last_ = 0, aside_ = 0, trained_ = 0;
  std::int64_t first_done_ = 0, last_done_ = 0;
  bool stale_ = false;  ///< the last interval ended some time after its last step
};

}  // namespace lockstep
