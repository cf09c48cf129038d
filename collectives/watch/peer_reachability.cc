#include "collectives/watch/peer_reachability.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr double kTimeouts = 1.5;  ///< limit() in timeouts
constexpr double kLeast = 3;       ///< seconds; TCP needs 1.4 s after three lost packets in a row
/// Part of the limit after which silence is more than a delay.
constexpr double kPart = 1.0 / 3;
/// After a cut one step may still end with messages that had arrived, and another if only one
/// direction is cut.
constexpr int kSteps = 3;

}  // namespace

double PeerReachability::limit(double timeout) { return std::max(kTimeouts * timeout, kLeast); }

void PeerReachability::answered() {
  heard_ = true;
  probed_ = false;
  silent_ = 0;
  steps_ = 0;
}

bool PeerReachability::judge(double elapsed, const HostPace& own, double timeout) {
  const bool began = own.step > step_;
  step_ = own.step;
  if (!judged()) return false;
  silent_ += elapsed;
  if (began && suspect(timeout)) ++steps_;
  const double allowed = (probed_ ? 2 : 1) * limit(timeout);
  return judged() && silent_ > allowed && own.quiet > kPart * limit(timeout);
}

bool PeerReachability::judged() const { return heard_ && !given_up_ && steps_ < kSteps; }

bool PeerReachability::suspect(double timeout) const {
  return judged() && silent_ > kPart * limit(timeout);
}

}  // namespace lockstep
