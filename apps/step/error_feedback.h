// Error feedback: the residuals of --wire (ReducerTraits::residual) of all ranks in checkpoints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/step/rank_sum.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "net/loss_scale.h"

namespace lockstep {

/// Multiplies an arena of `layout` except its statistics, which are not scaled with the loss.
void scale_trained(const Layout& layout, float factor, float* values);

/// Collective. Returns on ranks that pass `here` one section ("wire/0", "wire/1", ...) for each
/// rank that passes its `own` (RankSum::sections(), at most one), in rank order, in `memory`; on
/// other ranks none.
std::vector<ConstSection> gather_residuals(const Comm& comm, bool here, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory);

/// Collective. Bytes of the sections of gather_residuals().
std::size_t residual_bytes(const Comm& comm, const Layout& layout, bool residual);

/// Collective. Bytes that rank 0 holds for the residuals while it saves a checkpoint: `memory`, the
/// file's image and one buffer. 0 if no rank has a `residual`.
std::size_t gather_bytes(const Comm& comm, const Layout& layout, bool residual);

/// The residuals in a checkpoint.
struct SavedResiduals {
  float scale = 1;         ///< the loss scale; residuals are in units of it
  std::int64_t ranks = 0;  ///< ranks with a residual: the number of sections

  /// "scale 65536, ranks 2", exact.
  std::string text() const;
  /// Throws Error if `text` is not text() of any value.
  static SavedResiduals from(const std::string& text);
};

/// Collective. Adds the sections of `checkpoint`, which rank 0 has open, to the `own` sections of
/// ranks that pass one, in units of `scale`. If these ranks are as many as `before`, each gets its
/// own residual back. Else the first of them gets all residuals, so that nothing is lost, and a
/// note is returned. Throws AgreedError, also if the sections are not those of `before`, or contain
/// a number that is not finite.
std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint,
                              const SavedResiduals& before, const Layout& layout, float scale,
                              const std::vector<Section>& own);

}  // namespace lockstep
