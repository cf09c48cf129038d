// The double of a reducer that is in_stream(), as those of device libraries are: start() gives the
// whole sum as work, which meets that of the other ranks inside.
#pragma once

#include <memory>

#include "collectives/reducer.h"

namespace lockstep {

/// For a device whose work is done by threads of its own (tests/support/async_device.h). MPI must
/// grant MPI_THREAD_MULTIPLE. Sums in an order of MPI's.
std::unique_ptr<Reducer> make_in_stream_reducer(const ReducerSpec& spec);

}  // namespace lockstep
