// What --wire has kept back of the ranks' sums, in checkpoints.
#pragma once

#include <string>
#include <vector>

#include "collectives/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Collective. On rank 0 a section of its own ("wire/0", "wire/1", ...) for each rank that gives
/// its `kept` (Reducer::kept_back(); null: it gives none), in rank order, in `memory`; elsewhere
/// none.
std::vector<ConstSection> gather_kept_back(const Comm& comm, const Layout& layout,
                                           const float* kept,
                                           std::vector<std::vector<float>>& memory);

/// Collective. Gives the sections of `checkpoint`, which rank 0 has open, to those who have `kept`:
/// each to its own, where they are as many as before; else all that was kept back goes to the first
/// of them, so that nothing is lost. Returns a line about that on rank 0; else empty. Throws
/// AgreedError.
std::string restore_kept_back(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                              float* kept);

}  // namespace lockstep
