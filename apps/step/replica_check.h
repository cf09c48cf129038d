// The state of a run on all ranks: loaded from a checkpoint that rank 0 reads, and compared bit for
// bit to prove that the ranks are in lockstep.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "src/device/device.h"

namespace lockstep {

/// Collective. Fills the arenas of `sections` (Checkpoint::load) from `checkpoint`, which rank 0
/// has open; other ranks pass null. Throws AgreedError that names the file, also if a number is not
/// finite.
void load_on_all_ranks(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::vector<Section>& sections);

/// Collective. Copies the arenas of `sections` from rank 0 to all ranks. Throws AgreedError that
/// names `file`, where rank 0 read them, if a number is not finite.
void copy_to_all_ranks(const Comm& comm, const std::string& file, const Layout& layout,
                       const std::vector<Section>& sections);

/// Collective. load_on_all_ranks() of one section into new memory of `device`.
Memory load_on_devices(const Comm& comm, const Checkpoint* checkpoint, const Layout& layout,
                       const std::string& section, Device& device);

/// Collective; `state` is weights, optimizer slots and average. Throws AgreedError that names the
/// first array that differs between ranks (in the order of `state`, then of the arena), and the
/// rank whose values are the rarest. If no values are rarer, it names the first rank that differs
/// from rank 0.
void verify_mirror(const Comm& comm, const Layout& layout, const std::vector<ConstSection>& state,
                   std::int64_t step);

}  // namespace lockstep
