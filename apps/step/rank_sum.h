// RankSum: one way of summing over the ranks during a step. Each way is one file: dense_sum.h has
// the gradients, sync_batch_norm.h the statistics of layers, error_feedback.h the residuals of
// rounding. GradientSync owns them.
#pragma once

#include <cstddef>
#include <vector>

#include "net/checkpoint.h"
#include "src/base/view.h"

namespace lockstep {

/// Used by the computing thread. A way overrides the calls that concern it.
class RankSum {
 public:
  virtual ~RankSum() = default;
  /// Whether it sums the gradients in `range`: those of one layer, or the header.
  virtual bool owns(Range /*range*/) const { return false; }
  /// The work that writes `range` for own shard number `shard` has been given, in lane `lane`.
  /// Shards come in order; the ranges of a shard come in arena order. Never waits.
  virtual void written(int /*shard*/, int /*lane*/, Range /*range*/) {}
  /// Blocks until all sums of the step are in order: work that Reducer::stream() is given from then
  /// on finds them. Throws Error if a message fails.
  virtual void finish() {}
  /// Seconds since construction that the computing thread has waited.
  virtual double seconds() const { return 0; }
  /// Memory that this rank holds for it.
  virtual std::size_t bytes() const { return 0; }
  /// Arenas of the host that belong to the state of this rank only. The caller may read and write
  /// them between steps.
  virtual std::vector<Section> sections() { return {}; }
};

}  // namespace lockstep
