// Reach: whether another host can still be reached, judged by when its kernel last answered.
#pragma once

#include <cstdint>

namespace lockstep {

/// The progress of this host.
struct HostPace {
  std::int64_t step = -1;  ///< the highest step that a rank of this host has begun
  double quiet = 0;        ///< seconds that were watched since a rank of this host moved on
};

/// One other host. It is unreachable if two things stop together: its answers to the heartbeat, and
/// every rank of this host. Answers come from the kernel of the other host, so that ranks that
/// compute, wait for a disk or are stopped by a signal still answer.
///  - A host that has never answered is not judged: a firewall may drop the heartbeat from the
///    start.
///  - A heartbeat that stops while steps go on has failed by itself, for example because a firewall
///    has closed the connection. It is never judged again.
/// No clock and no socket: the caller passes both. One thread at a time.
class Reach {
 public:
  /// Seconds without an answer after which the other host is unreachable. A lost packet is sent
  /// again after up to as long as the loss has lasted. An outage of 0.7 times `timeout` is
  /// therefore forgiven, and the line still comes within twice `timeout`.
  static double limit(double timeout);

  void answered();
  /// Ignores this host from now on: its connection was closed, which says that it was reachable.
  void give_up() { given_up_ = true; }

  /// Call it again and again. `elapsed`: seconds that were watched since the last call. True if the
  /// host is unreachable.
  bool look(double elapsed, const HostPace& own, double timeout);

  /// No answer for so long that the network is to blame if this host does not move on either.
  bool suspect(double timeout) const;
  double silent() const { return silent_; }  ///< seconds since the last answer

 private:
  bool judged() const { return heard_ && !given_up_; }

  bool heard_ = false, given_up_ = false;
  double silent_ = 0;
  std::int64_t step_ = -1;  ///< own step at the last call
  int steps_ = 0;           ///< that this host has begun without an answer
};

}  // namespace lockstep
