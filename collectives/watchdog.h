// Watchdog: a thread in every rank that looks at the records of its node, so that a rank that died
// or hangs ends the run with one named cause instead of leaving the others to wait for ever.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

#include "collectives/comm.h"
#include "collectives/records.h"

namespace lockstep {

/// While it lives, one line (or table) on stderr from one rank of the node, and then
/// end_all_ranks(kExitFailure), follow
///  - the death of a rank of this node that has not said goodbye, within about a second;
///  - silence: one rank has been behind, without a mark, for longer than its phase may take. Behind
///    is one that is stopped (SIGSTOP, a debugger), else the one of the lowest step; of those one
///    that does not wait for others; of those the one that was heard of least lately. Where all
///    ranks of a node wait, those of other nodes are to blame, and get ten times as long to be
///    found out there.
/// If another rank of the node has claimed first_failure(), it explains and this one only sees to
/// it that its own process is gone 5 s later. Ranks of other nodes are watched there; they end with
/// the run.
class Watchdog {
 public:
  /// `timeout_seconds`: what a phase without a limit of its own may take; 0: deaths are watched
  /// for, silence is not.
  Watchdog(const World& world, double timeout_seconds);
  /// `alone`: there are no other nodes.
  Watchdog(Records& records, double timeout_seconds, bool alone);
  /// Says goodbye for this rank.
  ~Watchdog();

 private:
  void watch(std::stop_token stop);
  void look(double elapsed);
  void report_death(const Record::State& dead);
  void report_silence(int behind, double limit, bool stopped);

  Records& records_;
  double timeout_;
  bool alone_;
  int behind_ = -1;           ///< index of the rank that is behind
  std::int64_t mark_ns_ = 0;  ///< when it was last heard of
  double silent_ = 0;         ///< seconds that this thread has watched both stay the same
  double failing_ = 0;        ///< seconds since another rank began to explain
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;  ///< last: it is joined before what it uses goes
};

}  // namespace lockstep
