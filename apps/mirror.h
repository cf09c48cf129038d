// Proof that the ranks are in lockstep: their weights are compared, bit for bit.
#pragma once

#include "collectives/comm.h"
#include "net/parameters.h"

namespace lockstep {

/// One number per parameter of the layout that changes with any bit of it.
std::vector<std::uint64_t> fingerprints(const Layout& layout, const float* parameters);

/// Collective. Throws AgreedError that names the first parameter (in arena order) that is not the
/// same on all ranks, and the rank that stands alone with it (where no majority exists: the first
/// that differs from rank 0).
void verify_mirror(const Comm& comm, const Layout& layout, const float* parameters,
                   std::int64_t step);

}  // namespace lockstep
