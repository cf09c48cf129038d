// Cutout and mixup: what training does to images of any set besides the set's own augmentation,
// with numbers keyed by (seed, epoch, sample), so that they depend on no rank, shard or batch.
//
// Sources: DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout",
// 2017; Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/base/random.h"

namespace lockstep {

/// A square of zeros in an image that is standardised: of its mean. As constructed there is none.
struct Cutout {
  int top = 0, left = 0, side = 0;

  /// Around any pixel of the image: a part of the square may lie outside.
  static constexpr Cutout draw(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample,
                               int side, std::int64_t height, std::int64_t width) {
    Random random(seed, Purpose::cutout, epoch, sample);
    Cutout result;
    result.top = static_cast<int>(random.below(static_cast<std::uint32_t>(height))) - side / 2;
    result.left = static_cast<int>(random.below(static_cast<std::uint32_t>(width))) - side / 2;
    result.side = side;
    return result;
  }
  constexpr bool has(int row, int column) const {
    return row >= top && row < top + side && column >= left && column < left + side;
  }
};

/// What a sample becomes: weight of itself and 1 - weight of another sample of the training set,
/// which is augmented as that one is in this epoch; and so do the labels.
struct Mix {
  std::uint32_t partner = 0;
  float weight = 1;
};

/// Any of `size` samples, and a weight of the distribution Beta(alpha, alpha).
Mix draw_mix(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample, std::int64_t size,
             float alpha);

/// Rounded twice, whoever compiles it: a plain difference would be fused with a product that `own`
/// or `other` may be.
constexpr float mixed(float weight, float own, float other) {
  return std::fma(weight, std::fma(other, -1.0f, own), other);
}

}  // namespace lockstep
