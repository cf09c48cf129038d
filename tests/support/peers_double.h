// The double of CUDA's memory and events that processes of a host share: gradients in shared
// memory, marks as counters in it. As with CUDA, a wait is for the record that was called last.
#pragma once

#include <memory>

#include "collectives/reducers/peers.h"

namespace lockstep {

/// For a device whose work is done by threads of its own (tests/support/async_device.h).
std::unique_ptr<Peers> make_peers_double(const ReducerSpec& spec, int marks);

}  // namespace lockstep
