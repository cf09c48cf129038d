// PeerReachability: decides whether another host can be reached, from the answers of its kernel.
#pragma once

#include <cstdint>

namespace lockstep {

/// Progress of this host.
struct HostPace {
  std::int64_t step = -1;  ///< the highest step that a rank of this host has begun
  double quiet = 0;        ///< watched seconds since a rank of this host moved
};

/// One other host. It is unreachable if its answers to the heartbeat and all ranks of this host
/// stop at the same time. The kernel of the other host answers, so that it answers while its ranks
/// compute, wait for a disk or are stopped.
///  - A host that has never answered is not judged, because a firewall may drop the heartbeat.
///  - If answers stop while steps go on, only the heartbeat has failed, for example because a
///    firewall closed the connection. The host is not judged until it answers again.
///  - TCP repeats a lost packet only after up to the duration of the outage. So an answer to a
///    probe, a new connection, doubles the time that the old one has.
/// Uses no clock and no socket. One thread at a time.
class PeerReachability {
 public:
  /// Seconds without an answer after which the other host is unreachable. Shorter outages are
  /// allowed, and the line is printed within 2 `timeout`.
  static double limit(double timeout);

  void answered();
  void probed() { probed_ = true; }  ///< a probe was answered
  /// Never judges this host again: it closed the connection, so that it was reachable.
  void give_up() { given_up_ = true; }

  /// Call it regularly. `elapsed`: watched seconds since the last call. Returns whether the host is
  /// unreachable.
  bool judge(double elapsed, const HostPace& own, double timeout);

  /// The last answer is so old that a hang of this host may be a fault of the network.
  bool suspect(double timeout) const;
  double silent() const { return silent_; }  ///< seconds since the last answer

 private:
  bool judged() const;

  bool heard_ = false, given_up_ = false, probed_ = false;
  double silent_ = 0;
  std::int64_t step_ = -1;  ///< own step at the last call
  int steps_ = 0;           ///< begun by this host without an answer
};

}  // namespace lockstep
