// Softmax cross-entropy: value, gradient and rank of the right answer in one pass over the logits.
#pragma once

#include <cstdint>
#include <span>

#include "src/device.h"

namespace lockstep {

/// What the network said of one sample.
struct SampleResult {
  float loss = 0;  ///< -log(softmax(logits)[label]), natural logarithm
  std::int32_t rank =
      0;  ///< how many classes score above the label's: 0 is right, below 5 is in the top five
  std::int32_t predicted = 0;  ///< the class with the highest score
};

/// Fills one SampleResult per row of `logits` (N x classes, f32 or bf16) for `labels` (N, i32).
/// With `gradient` (like logits): gradient = (softmax - one-hot) * scale; with scale = 1 / global
/// batch, sums over samples, shards and ranks are means. Ties rank the lower class first; a NaN
/// anywhere counts against the label.
void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           std::span<SampleResult> results);

/// Sums of results that come out the same in any order and grouping, so that an evaluation does
/// not depend on how many ranks share it: counts, and the loss in units of 2^-32 (each sample's
/// rounded; a loss above 1e5 or NaN is noted as diverged).
struct Score {
  std::int64_t samples = 0, top1 = 0, top5 = 0, loss_units = 0, diverged = 0;

  void add(const SampleResult& result);
  double loss() const;  ///< mean; NaN if any sample diverged
  double top1_share() const { return static_cast<double>(top1) / static_cast<double>(samples); }
  double top5_share() const { return static_cast<double>(top5) / static_cast<double>(samples); }
};

}  // namespace lockstep
