// Softmax cross-entropy: gradient and score in one pass over the logits.
#pragma once

#include <cstdint>
#include <limits>

#include "src/device/device.h"

namespace lockstep {

/// The result of a network for some samples. All sums are integers, so they are identical for any
/// number of threads and ranks.
struct Score {
  std::int64_t samples = 0;
  /// Samples with no class, or fewer than five classes, above the label's.
  std::int64_t top1 = 0, top5 = 0;
  /// The loss -log(softmax(logits)[label]) of each sample (or with smoothed labels), rounded to a
  /// multiple of 2^-32.
  std::int64_t loss_units = 0;
  /// Samples whose loss is above 1e5 or NaN; loss_units leaves them out.
  std::int64_t diverged = 0;

  /// The sum over all samples; NaN if one of them diverged.
  constexpr double loss_sum() const {
    return diverged > 0 ? std::numeric_limits<double>::quiet_NaN()
                        : static_cast<double>(loss_units) * 0x1p-32;
  }
  double loss() const { return loss_sum() / static_cast<double>(samples); }
  /// Divides last, so that 29 of 100 are exactly 29.
  double top1_percent() const {
    return 100.0 * static_cast<double>(top1) / static_cast<double>(samples);
  }
  double top1_share() const { return static_cast<double>(top1) / static_cast<double>(samples); }
  double top5_share() const { return static_cast<double>(top5) / static_cast<double>(samples); }
  bool operator==(const Score&) const = default;
};
static_assert(sizeof(Score) == 5 * sizeof(std::int64_t));

/// For every row of `logits` (N x classes, of a floating-point type) and its label in `labels` (N,
/// i32):
/// - adds the sample to `*score`;
/// - with `confusion`, classes x classes counts, adds it at [label * classes + highest class];
/// - with `gradient` (like logits): gradient = (softmax - one-hot) * scale; with scale = 1 / global
///   batch, sums over samples, shards and ranks are means.
/// - with `smoothing`, the target is 1 - smoothing for the label plus smoothing / classes for each
///   class (Szegedy et al., "Rethinking the inception architecture for computer vision", 2016).
/// - with `weights` (N, f32), each sample is mixed with another (Zhang et al., "mixup: beyond
///   empirical risk minimization", 2018): its target is weight for its label and the rest for the
///   label in `others`, before smoothing. top1, top5 and `confusion` use the label of more weight.
/// - with `factor`, memory of the device, the gradient is multiplied by it (net/loss_scale.h).
/// Ties rank the lower class first; a NaN anywhere counts against the label. All memory is the
/// device's.
void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           Score* score, std::int64_t* confusion = nullptr, float smoothing = 0,
                           View others = {}, View weights = {}, const float* factor = nullptr);

}  // namespace lockstep
