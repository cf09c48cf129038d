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
  /// The losses -log(softmax(logits)[label]) (or with smoothed labels), each rounded to a multiple
  /// of 2^-32. Their sum is loss_fraction * 2^-32 plus loss_whole[k] * 2^(32 k), so the sum
  /// of 2^31 losses does not overflow.
  std::int64_t loss_fraction = 0, loss_whole[4] = {};
  /// Samples whose loss is not finite: a logit is infinite or NaN. The sums leave them out.
  std::int64_t diverged = 0;

  /// The sum over all samples; NaN if one of them diverged.
  constexpr double loss_sum() const {
    return diverged > 0 ? std::numeric_limits<double>::quiet_NaN() : finite_loss_sum();
  }
  /// The sum without the samples that diverged. It is rounded once if it is below 2^31.
  constexpr double finite_loss_sum() const {
    const std::int64_t carried = loss_whole[0] + (loss_fraction >> 32),
                       rest = loss_fraction & 0xffffffff;
    const bool few = carried < std::int64_t{1} << 31;
    const double low = few ? static_cast<double>(carried * (std::int64_t{1} << 32) + rest) * 0x1p-32
                           : static_cast<double>(carried);
    return low + static_cast<double>(loss_whole[1]) * 0x1p32 +
           static_cast<double>(loss_whole[2]) * 0x1p64 +
           static_cast<double>(loss_whole[3]) * 0x1p96;
  }
  double loss() const { return loss_sum() / static_cast<double>(samples); }
  double top1_share() const { return static_cast<double>(top1) / static_cast<double>(samples); }
  double top5_share() const { return static_cast<double>(top5) / static_cast<double>(samples); }
  bool operator==(const Score&) const = default;
};
static_assert(sizeof(Score) == 9 * sizeof(std::int64_t));

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
/// - with `class_weights` (classes, f32), finite and at least 0, loss and gradient of a sample are
///   multiplied by the weight of its label's class, after smoothing. A mixed sample has the sum of
///   the losses of its two labels: weight * (weight of the class of its label) for one, and the
///   same with the rest for the other. The score counts samples and ranks without these weights.
/// The loss of finite logits is finite, also if it exceeds the largest float.
/// Ties rank the lower class first; a NaN anywhere counts against the label. All memory is the
/// device's.
void softmax_cross_entropy(Stream& stream, View logits, View labels, float scale, View gradient,
                           Score* score, std::int64_t* confusion = nullptr, float smoothing = 0,
                           View others = {}, View weights = {}, View class_weights = {});

}  // namespace lockstep
