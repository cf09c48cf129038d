// What rank 0 reads from a checkpoint, on all ranks.
#pragma once

#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Collective. Fills the arenas of `sections` (Checkpoint::load) from `checkpoint`, which rank 0
/// has open; the others give null. Throws AgreedError, which names the file, also where a number is
/// not finite.
void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections);

}  // namespace lockstep
