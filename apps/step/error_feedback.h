// ErrorFeedback: the residual of --wire (ReducerTraits::residual) while the loss scale changes, and
// the residuals of all ranks in checkpoints.
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

/// The residual of one rank. It is in units of scaled gradients, so it follows the loss scale. A
/// skipped step does not change it.
class ErrorFeedback : public RankSum {
 public:
  /// `layout` outlives it. `residual` is ReducerTraits::residual; null: this rank rounds nothing.
  /// `dynamic`: the loss scale changes.
  ErrorFeedback(const Layout& layout, float* residual, bool dynamic)
      : layout_(layout), residual_(residual), before_(dynamic && residual ? layout.count : 0) {}

  /// Call before each step, whose sums change the residual.
  void begin_step();
  /// Whether settle() is due: the loss scale after the last step decides on the residual.
  bool pending() const { return pending_; }
  /// `scale`: after the last step.
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

/// Collective. Returns on rank 0 one section ("wire/0", "wire/1", ...) for each rank that passes
/// its `own` (RankSum::sections(), at most one), in rank order, in `memory`; on other ranks none.
std::vector<ConstSection> gather_residuals(const Comm& comm, const Layout& layout,
                                           const std::vector<Section>& own,
                                           std::vector<std::vector<float>>& memory);

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
