// What messages between hosts cost, measured.
#pragma once

#include "collectives/comm.h"
#include "collectives/schedule.h"

namespace lockstep {

/// The numbers of a message between the first ranks of the first two nodes of `comm`, with the
/// others idle: half of a round trip of 8 bytes, and bytes per second with both directions busy;
/// medians. And what the first rank adds in its own memory. The same on all ranks. `node` is the
/// caller's part of `comm`. Takes 0.1 to 0.2 s, half a second on a link of 100 Mbit/s. With one
/// node, Link()'s usual numbers, at once. Collective.
Link measure_link(const Comm& comm, const Comm& node);

/// "52 us and 0.117 GB/s".
std::string describe(const Link& link);

}  // namespace lockstep
