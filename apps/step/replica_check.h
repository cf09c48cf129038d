// Proof that the ranks are in lockstep: all that they carry from step to step is compared, bit for
// bit.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// One number per parameter of the layout that changes with any bit of it.
std::vector<std::uint64_t> fingerprints(const Layout& layout, const float* arena);

/// Collective; `state` is weights, optimizer slots and average. Throws AgreedError that names the
/// first array (in the order of `state`, then of the arena) that is not the same on all ranks, and
/// the rank that stands alone with it (where no majority exists: the first that differs from rank
/// 0).
void verify_mirror(const Comm& comm, const Layout& layout, const std::vector<ConstSection>& state,
                   std::int64_t step);

}  // namespace lockstep
