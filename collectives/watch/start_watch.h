// StartWatch: watches the ranks in MPI_Init, before they see each other's records.
#pragma once

#include <atomic>
#include <stop_token>
#include <string>
#include <thread>

namespace lockstep {

/// While it lives, it ends the run if a signal has stopped a rank of this host for two seconds,
/// because the launcher would wait for ever. The lowest rank that is not stopped prints a line that
/// begins with `program`. Another rank prints it if that rank still runs 5 s later. Ranks are
/// processes with the same parent and the same PMIx job; without PMIx nothing is watched. The first
/// look is after a second, so that a quick MPI_Init costs nothing. The launcher reports a rank that
/// dies.
///
/// It also ends the run if hosts cannot exchange their first messages. MPI would wait for ever if
/// two hosts have one address in common, and for minutes if a firewall drops packets.
class StartWatch {
 public:
  explicit StartWatch(std::string program);

  /// MPI_Init has returned on ranks of several hosts. Rank 0 prints the line if this object still
  /// lives 45 s later.
  void expect_messages() { connects_ = true; }

 private:
  void watch(const std::stop_token& stop);

  const std::string program_;
  std::string job_;
  bool first_ = false;  ///< rank 0
  std::atomic<bool> connects_ = false;
  std::jthread thread_;  ///< last: it is joined before the members that it uses are destroyed
};

}  // namespace lockstep
