// What messages between hosts cost, measured.
#pragma once

#include <functional>
#include <string>

#include "collectives/comm/comm.h"
#include "collectives/schedule.h"
#include "src/base/clock.h"

namespace lockstep {

/// The numbers of a message between the first ranks of the first two nodes of `comm`, with the
/// others idle: half of a round trip of 8 bytes, the best of `rounds`, and bytes per second with
/// both directions busy with chunks as exchanges send them, the best of a quarter as many. And what
/// the first rank adds in its own memory. The same on all ranks. `node` is the caller's part of
/// `comm`. 40 rounds take 0.1 to 0.2 s, half a second on a link of 100 Mbit/s. With one node,
/// Link()'s usual numbers, at once. Collective. `clock`: in seconds; the first rank looks at its
/// own.
Link measure_link(const Comm& comm, const Comm& node, int rounds = 40,
                  const std::function<double()>& clock = now_seconds);

/// "52 us and 0.117 GB/s".
std::string describe(const Link& link);

}  // namespace lockstep
