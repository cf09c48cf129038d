// The residuals of --wire (ReducerTraits::kept_back), beside a scale of the loss and in
// checkpoints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "net/loss_scale.h"

namespace lockstep {

/// Multiplies what is scaled with the loss: of an arena of `layout` all but statistics.
void scale_trained(const Layout& layout, float factor, float* values);

/// What is `kept` back after the step that has moved the scale of the loss on to `scale`. It is in
/// units of scaled gradients: those of the next step have others. And of a step that was skipped
/// nothing has arrived: it is what it was `before`.
void follow_scale(const Layout& layout, const LossScale& scale, const std::vector<float>& before,
                  float* kept);

/// Collective. On rank 0 a section of its own ("wire/0", "wire/1", ...) for each rank that gives
/// its `kept` (ReducerTraits::kept_back; null: it gives none), in rank order, in `memory`;
/// elsewhere none.
std::vector<ConstSection> gather_kept_back(const Comm& comm, const Layout& layout,
                                           const float* kept,
                                           std::vector<std::vector<float>>& memory);

/// Collective. Bytes that rank 0 holds for them while it saves a checkpoint: twice, in `memory` and
/// in the file's image, besides one that passes. 0 if no rank `keeps` something back.
std::size_t gather_bytes(const Comm& comm, const Layout& layout, bool keeps);

/// What a checkpoint says of them.
struct KeptBack {
  float scale = 1;         ///< of the loss that they are in units of
  std::int64_t ranks = 0;  ///< that kept something back: sections

  /// "scale 65536, ranks 2", exact.
  std::string text() const;
  /// Throws Error where it is no such text.
  static KeptBack from(const std::string& text);
};

/// Collective. Gives the sections of `checkpoint`, which rank 0 has open, to those who have `kept`:
/// each to its own, where they are as many as `before`; else all that was kept back goes to the
/// first of them, so that nothing is lost. In units of `scale`. Returns a line about that on rank
/// 0; else empty. Throws AgreedError, also where the sections are not those of `before`, or hold a
/// number that is not finite.
std::string restore_kept_back(const Comm& comm, const Checkpoint* checkpoint,
                              const KeptBack& before, const Layout& layout, float scale,
                              float* kept);

}  // namespace lockstep
