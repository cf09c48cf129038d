// The measured cost of messages between hosts.
#pragma once

#include <functional>
#include <string>

#include "collectives/comm/comm.h"
#include "collectives/schedule.h"
#include "src/base/clock.h"

namespace lockstep {

/// Measures messages between the first ranks of the first two nodes of `comm`, while the others
/// idle. The latency is half of a round trip of 8 bytes, the best of `rounds`. The bandwidth is
/// that of chunks in both directions, the best of an eighth as many. The first rank also measures
/// additions in its own memory. The same on all ranks. 40 rounds take less than 0.1 s, or 0.5 s on
/// 100 Mbit/s. With one node, returns Link() at once. `node`: the caller's part of `comm`. `clock`:
/// of the first rank, in seconds. Collective.
Link measure_link(const Comm& comm, const Comm& node, int rounds = 40,
                  const std::function<double()>& clock = now_seconds);

/// "52 us and 0.117 GB/s".
std::string describe(const Link& link);

}  // namespace lockstep
