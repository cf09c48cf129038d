// Error feedback: the residuals of --wire (ReducerTraits::residual) of all ranks in checkpoints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Collective. Returns on ranks that pass `here` one section ("wire/0", "wire/1", ...) for each
/// rank that passes its `own` (GradientSync::sections()), in rank order, in `memory`; on
/// other ranks none.
std::vector<ConstSection> gather_residuals(const Comm& comm, bool here, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory);

/// Collective. Bytes of the sections of gather_residuals().
std::size_t residual_bytes(const Comm& comm, const Layout& layout, const std::vector<Section>& own);

/// Collective. Adds the sections of `checkpoint`, which rank 0 has open, to the `own` sections of
/// ranks that pass one. `before`: ranks with a residual when it was saved. If these ranks are as
/// many, each gets its own residual back. Else the first of them gets all residuals, so that
/// nothing is lost, and a note is returned. Throws AgreedError, also if the sections are not
/// `before`, or contain a number that is not finite.
std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint, std::int64_t before,
                              const Layout& layout, const std::vector<Section>& own);

}  // namespace lockstep
