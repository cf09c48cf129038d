// Cutout and mixup: augmentations for images of any data set. Their random numbers are keyed by
// (seed, epoch, sample), so they depend on no rank, shard or batch.
//
// Sources: DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout",
// 2017; Zhang, Cisse, Dauphin, Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/base/random.h"
#include "src/data/dataset.h"

namespace lockstep {

/// A square of zeros, the mean, in a standardised image. As constructed there is none.
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

/// The changes of training to the standardised values of one image. A further augmentation of
/// values is a struct like Cutout, a member here and an option in Mixing.
struct ImageEdits {
  Cutout cutout;

  static constexpr ImageEdits draw(const Mixing& options, std::uint64_t seed, std::uint32_t epoch,
                                   std::uint32_t sample, std::int64_t height, std::int64_t width) {
    ImageEdits edits;
    if (options.cutout > 0)
      edits.cutout = Cutout::draw(seed, epoch, sample, options.cutout, height, width);
    return edits;
  }
  /// The edited value of a pixel that has `value`.
  HOST_DEVICE float at(int row, int column, float value) const {
    return cutout.has(row, column) ? 0.0f : value;
  }
  /// Edits the image at `y`, of which each lane has written every lanes-th pixel. Each lane edits
  /// the pixels that it has written.
  template <class T, class Team>
  HOST_DEVICE void apply(T* y, int lines, int columns, int channels, Team team) const {
    const int left = std::max(cutout.left, 0), right = std::min(cutout.left + cutout.side, columns),
              end = std::min(cutout.top + cutout.side, lines);
    for (int row = std::max(cutout.top, 0); row < end; ++row) {
      const int begin = row * columns + left,
                own = (team.lane + team.lanes - begin % team.lanes) % team.lanes;
      for (int i = begin + own; i < row * columns + right; i += team.lanes) {
        for (int c = 0; c < channels; ++c) y[i * channels + c] = T(0.0f);
      }
    }
  }
};

/// The mix of a sample: `weight` of itself, and 1 - weight of another sample of the training set
/// with that sample's augmentation in this epoch. Labels are mixed alike.
struct Mix {
  std::uint32_t partner = 0;
  float weight = 1;
};

/// Draws one of `size` samples, and a weight of the distribution Beta(alpha, alpha).
Mix draw_mix(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample, std::int64_t size,
             float alpha);

/// Rounded twice by each compiler. A plain difference could be fused with a product in `own` or
/// `other`.
constexpr float mixed(float weight, float own, float other) {
  return std::fma(weight, std::fma(other, -1.0f, own), other);
}

}  // namespace lockstep
