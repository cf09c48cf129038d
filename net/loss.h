// Softmax cross-entropy: gradient and score in one pass over the logits.
#pragma once

#include <cstdint>
#include <limits>

#include "net/loss_modifiers.h"
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

/// A batch of N samples and its loss. All memory is the device's.
struct LossSpec {
  View logits;  ///< N x classes, of a floating-point type
  View labels;  ///< N, i32
  Score* score;
  /// Like logits; null: none. With scale = 1 / global batch, sums over samples, shards and ranks
  /// are means.
  View gradient = {};
  float scale = 1;
  std::int64_t* confusion = nullptr;  ///< classes x classes counts; null: none
  LossModifiers modifiers = {};
};

/// For every sample:
/// - adds it to `*score`, which counts samples and ranks without weights of classes;
/// - adds it to `confusion` at [label * classes + highest class];
/// - gradient = (softmax - target) * factor * scale, with its LossTarget.
/// top1, top5 and `confusion` use the label of more weight. The loss of finite logits is finite,
/// also if it exceeds the largest float. Ties rank the lower class first; a NaN anywhere counts
/// against the label.
void softmax_cross_entropy(Stream& stream, const LossSpec& spec);

}  // namespace lockstep
