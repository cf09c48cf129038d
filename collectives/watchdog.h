// Watchdog: a thread in every rank that looks at the records of its node, so that a rank that died
// or hangs ends the run with one named cause instead of leaving the others to wait for ever.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "collectives/comm.h"
#include "collectives/records.h"

namespace lockstep {

/// While it lives, one line (or table) on stderr from one rank of the node, and then
/// end_all_ranks(kExitFailure), follow
///  - the death of a rank of this node that has not said goodbye, within about a second;
///  - silence: the rank that is behind (the lowest step; of those the one that was heard of least
///  lately) has made no mark for
///    longer than its phase may take. Ranks that wait for it are not to blame, however long they
///    wait.
/// If another rank of the node has claimed first_failure(), it explains and this one only sees to
/// it that its own process is gone 5 s later. Ranks of other nodes are watched there; they end with
/// the run.
class Watchdog {
 public:
  /// `timeout_seconds`: what a phase without a limit of its own may take; 0: deaths are watched
  /// for, silence is not.
  Watchdog(const World& world, double timeout_seconds)
      : Watchdog(world.records(), timeout_seconds) {}
  Watchdog(Records& records, double timeout_seconds);
  /// Says goodbye for this rank.
  ~Watchdog();

 private:
  /// What this process has seen of one rank.
  struct Peer {
    std::int64_t mark_ns = 0;
    double silent = 0;  ///< seconds that this thread has watched the mark stay the same
  };

  void watch(std::stop_token stop);
  void look(double elapsed);
  void report_death(const Record::State& dead);
  void report_silence(int behind, double limit);

  Records& records_;
  double timeout_;
  std::vector<Peer> peers_;
  double failing_ = 0;  ///< seconds since another rank began to explain
  std::mutex mutex_;
  std::condition_variable_any woken_;
  std::jthread thread_;  ///< last: it is joined before what it uses goes
};

}  // namespace lockstep
