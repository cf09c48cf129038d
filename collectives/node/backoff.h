// Backoff: the pause of a thread between two looks at messages that have not arrived.
#pragma once

#include <cstdint>

namespace lockstep {

/// Decides whether other threads want the core of a polling thread. They do if the thread had less
/// than 70 % of its core in two successive spans of 5 ms, and had to leave it. (A thread also loses
/// time to interrupts and to a hypervisor, without leaving its core.)
class CoreContention {
 public:
  /// The steady clock and the thread's processor time in seconds, and the number of times that it
  /// left its core.
  struct Reading {
    double now, worked;
    std::int64_t left;
  };

  /// The thread begins to poll: forgets earlier readings.
  void begin(const Reading& reading) { last_ = reading; }
  /// The thread has polled since the last reading. Returns true once if others want the core.
  bool shared(const Reading& reading);

 private:
  Reading last_{}, span_{};
  int bad_ = 0;
};

/// Polls while the thread has its core to itself, because a thread that sleeps wakes up late, and
/// on a virtual core slowly. If others want the core, every look costs their work: it then naps for
/// some seconds before it polls again. Tutorial steps of 4 ranks, each on a host, on 2 cores took
/// half the time with naps. With a core for each of 2 ranks, naps cost a fifth. One thread at a
/// time.
class Backoff {
 public:
  /// A wait begins, or continues after other work.
  void begin() { fresh_ = true; }
  /// Call it between two looks. A nap is 50 us and about 50 us of Linux's timer slack. A wait of
  /// less than a millisecond costs only a look at the clock.
  void between();
  /// Others want the core.
  bool naps() const;

 private:
  CoreContention judge_;
  bool fresh_ = true;    ///< the wait has just begun
  bool judged_ = false;  ///< the wait is long enough for readings
  double read_ = 0;      ///< time of the last reading
  double until_ = 0;     ///< end of the naps
};

}  // namespace lockstep
