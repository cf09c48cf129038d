// The differences between the clocks of hosts.
#pragma once

#include <cstdint>
#include <functional>

#include "collectives/comm/comm.h"
#include "src/base/clock.h"

namespace lockstep {

struct ClockOffset {
  std::int64_t ns = 0;        ///< the clock of rank 0 minus this rank's clock
  std::int64_t error_ns = 0;  ///< largest error of `ns`
};

/// The present offset of `clock`, by 20 round trips between rank 0 and the first rank of every
/// other node. The ranks of a node share a clock. `node`: the caller's part of `comm`. Collective.
/// Source: F. Cristian, "Probabilistic clock synchronization", 1989: the other clock is read in the
/// middle of the shortest round trip.
ClockOffset clock_offset(const Comm& comm, const Comm& node,
                         const std::function<std::int64_t()>& clock = now_ns);

}  // namespace lockstep
