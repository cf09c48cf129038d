// ErrorFeedback: the residual of --wire (ReducerTraits::residual) while the scale of the loss
// changes, and the residuals of all ranks in checkpoints.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "apps/step/rank_sum.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"
#include "net/loss_scale.h"

namespace lockstep {

/// Multiplies what is scaled with the loss: of an arena of `layout` all but statistics.
void scale_trained(const Layout& layout, float factor, float* values);

/// The residual of one rank. It is in units of scaled gradients, so it follows the scale of the
/// loss. A step that was skipped leaves it as it was before.
class ErrorFeedback : public RankSum {
 public:
  /// `layout` outlives it. `residual` is ReducerTraits::residual; null: nothing is rounded here.
  /// `dynamic`: the scale of the loss changes.
  ErrorFeedback(const Layout& layout, float* residual, bool dynamic)
      : layout_(layout), residual_(residual), before_(dynamic && residual ? layout.count : 0) {}

  /// A step begins: its sums will change the residual.
  void begin_step();
  /// Whether settle() is due, because the scale after the last step decides on the residual.
  bool pending() const { return pending_; }
  /// `scale` is that after the last step.
  void settle(const LossScale& scale);

  std::size_t bytes() const override { return before_.size() * sizeof(float); }
  /// "wire", the residual, if there is one. Not while pending().
  std::vector<Section> sections() override;

 private:
  const Layout& layout_;
  float* residual_;
  std::vector<float> before_;  ///< before the last step; empty: the scale is constant
  bool pending_ = false;
};

/// Collective. On rank 0 a section of its own ("wire/0", "wire/1", ...) for each rank that passes
/// its `own` one (RankSum::sections(), at most one), in rank order, in `memory`; elsewhere none.
std::vector<ConstSection> gather_residuals(const Comm& comm, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory);

/// Collective. Bytes that rank 0 holds for them while it saves a checkpoint: twice, in `memory` and
/// in the file's image, besides one that passes. 0 if no rank has a `residual`.
std::size_t gather_bytes(const Comm& comm, const Layout& layout, bool residual);

/// The residuals in a checkpoint.
struct SavedResiduals {
  float scale = 1;         ///< of the loss; residuals are in units of it
  std::int64_t ranks = 0;  ///< that had a residual: the number of sections

  /// "scale 65536, ranks 2", exact.
  std::string text() const;
  /// Throws Error if it is no such text.
  static SavedResiduals from(const std::string& text);
};

/// Collective. Adds the sections of `checkpoint`, which rank 0 has open, to the `own` sections of
/// ranks that pass one: each to its own, if they are as many as `before`; else all residuals go to
/// the first of these ranks, so that nothing is lost. In units of `scale`. On rank 0 a line about
/// that is returned; else an empty one. Throws AgreedError, also if the sections are not those of
/// `before`, or hold a number that is not finite.
std::string restore_residuals(const Comm& comm, const Checkpoint* checkpoint,
                              const SavedResiduals& before, const Layout& layout, float scale,
                              const std::vector<Section>& own);

}  // namespace lockstep
