// How far the clocks of hosts are apart.
#pragma once

#include <cstdint>
#include <functional>

#include "collectives/comm/comm.h"
#include "src/base/clock.h"

namespace lockstep {

struct ClockOffset {
  std::int64_t ns = 0;        ///< this rank's clock and so much are the clock of rank 0
  std::int64_t error_ns = 0;  ///< and so much less or more, at most
};

/// Of `clock` now, by messages between rank 0 and the first rank of every other node; those of a
/// node have one clock. `node` is the caller's part of `comm`. 20 round trips for each node.
/// Collective. Source: F. Cristian, "Probabilistic clock synchronization", 1989: the other clock is
/// read in the middle of the shortest round trip.
ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock = now_ns);

}  // namespace lockstep
