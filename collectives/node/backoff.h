// Backoff: what a thread does between two looks at messages that have not come.
#pragma once

#include <cstdint>

namespace lockstep {

/// Whether others want the core that a thread looks on from: it had less than 70 % of it in two
/// spans of looking one after the other, of 5 ms each, and had to leave it. (Time that interrupts
/// or a hypervisor take may be missing too; for these nobody need make room.)
class CoreContention {
 public:
  /// Of a thread: the steady clock, its own processor time, both in seconds, and how often it left
  /// its core.
  struct Reading {
    double now, worked;
    std::int64_t left;
  };

  /// What went before counts no longer: the thread begins to look.
  void begin(const Reading& reading) { last_ = reading; }
  /// It has looked since the last reading. True: the core is shared, and the judging begins anew.
  bool shared(const Reading& reading);

 private:
  Reading last_{}, span_{};
  int bad_ = 0;
};

/// Looks on while the core is its own: one that sleeps comes back late, and a virtual one slow.
/// Where others want it, because ranks share cores or threads compute there, it naps for some
/// seconds, for every look is taken from somebody's work, and then judges again. Tutorial steps of
/// 4 ranks, a host each, on 2 cores took half the time so; of 2 ranks with a core each they took a
/// fifth more where it always napped. One thread at a time.
class Backoff {
 public:
  /// A wait begins, or goes on after something else.
  void begin() { fresh_ = true; }
  /// Between two looks. A nap is 50 us, and about as much again by Linux's usual slack of timers.
  /// What is over in a millisecond is not judged, and costs no more than a look at the clock.
  void between();
  /// It has found its core shared.
  bool naps() const;

 private:
  CoreContention judge_;
  bool fresh_ = true, judged_ = false;  ///< a wait that has not been looked at, or is judged
  double read_ = 0;                     ///< when that was looked at last
  double until_ = 0;                    ///< naps
};

}  // namespace lockstep
