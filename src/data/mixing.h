// mixup and CutMix: images of any data set are mixed with others, and so are their labels. Their
// random numbers are keyed by (seed, epoch, sample), so they depend on no rank, shard or batch.
//
// Sources: Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR
// 2018; Yun et al., "CutMix", ICCV 2019.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/base/random.h"
#include "src/data/augmentation.h"

namespace lockstep {

/// mixup. The number is alpha of the distribution of the shares.
struct Mixup {
  static constexpr AugmentationOption kOption{
      "mixup",
      "Parameter of the Beta distribution of mixup; 0: no mixup\n"
      "Each training image and its label are mixed with another's. Their shares are random numbers "
      "of Beta(NUMBER, NUMBER).",
      "mixup", 4, "0.2"};
  static constexpr Purpose kStream{7};
  float value = 0;
};

/// CutMix. The number is alpha of the distribution of the pasted area.
struct CutMix {
  static constexpr AugmentationOption kOption{
      "cutmix",
      "Parameter of the Beta distribution of CutMix; 0: no CutMix\n"
      "A rectangle of another training image is pasted into each. The labels are mixed by area. "
      "With --mixup too, each image gets one of the two at random.",
      "CutMix", 4, "1"};
  static constexpr Purpose kStream{9};
  float value = 0;
};

/// How the samples of a run are mixed.
using Mixing = AugmentationList<Mixup, CutMix>;

/// Rounded twice by each compiler. A plain difference could be fused with a product in `own` or
/// `other`.
constexpr float mixed(float weight, float own, float other) {
  return std::fma(weight, std::fma(other, -1.0f, own), other);
}

/// The mix of a sample with another sample of the training set with that sample's augmentation in
/// this epoch. mixup: each value is `weight` of itself and 1 - weight of the other's. CutMix: the
/// values in `pasted` are the other's, and `weight` is the share of the rest. Labels are mixed by
/// `weight`.
struct Mix {
  std::uint32_t partner = 0;
  float weight = 1;
  Rectangle pasted = {};  ///< without height: mixup

  HOST_DEVICE float at(int row, int column, float own, float other) const {
    if (pasted.height == 0) return mixed(weight, own, other);
    return pasted.has(row, column) ? other : own;
  }
};

/// Draws one of `size` samples, and a weight of the distribution Beta(alpha, alpha).
Mix draw_mix(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample, std::int64_t size,
             float alpha);

/// The mix of a sample of height x width pixels by mixup or CutMix: by chance one of them if both
/// are on. At least one is.
Mix draw_mix(const Mixing& mixing, std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample,
             std::int64_t size, std::int64_t height, std::int64_t width);

}  // namespace lockstep
