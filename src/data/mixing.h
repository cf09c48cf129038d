// Cutout, random erasing, mixup and CutMix: augmentations for images of any data set. Their random
// numbers are keyed by (seed, epoch, sample), so they depend on no rank, shard or batch.
//
// Sources: DeVries, Taylor, "Improved regularization of convolutional neural networks with cutout",
// 2017; Zhong et al., "Random erasing data augmentation", AAAI 2020; Zhang, Cisse, Dauphin,
// Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018; Yun et al., "CutMix", ICCV
// 2019.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/base/random.h"
#include "src/data/dataset.h"

namespace lockstep {

/// Part of an image in pixels; it may reach beyond the image. As constructed it has none.
struct Rectangle {
  int top = 0, left = 0, height = 0, width = 0;

  constexpr bool has(int row, int column) const {
    return row >= top && row < top + height && column >= left && column < left + width;
  }
  /// Writes zeros into the image at `y`, of which each lane has written every lanes-th pixel. Each
  /// lane writes the pixels that it has written.
  template <class T, class Team>
  HOST_DEVICE void clear(T* y, int lines, int columns, int channels, Team team) const {
    const int begin = std::max(left, 0), behind = std::min(left + width, columns),
              end = std::min(top + height, lines);
    for (int row = std::max(top, 0); row < end; ++row) {
      const int first = row * columns + begin,
                own = (team.lane + team.lanes - first % team.lanes) % team.lanes;
      for (int i = first + own; i < row * columns + behind; i += team.lanes) {
        for (int c = 0; c < channels; ++c) y[i * channels + c] = T(0.0f);
      }
    }
  }
};

/// A square of zeros, the mean, in a standardised image.
struct Cutout : Rectangle {
  /// Around any pixel of the image: a part of the square may lie outside.
  static constexpr Cutout draw(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample,
                               int side, std::int64_t height, std::int64_t width) {
    Random random(seed, Purpose::cutout, epoch, sample);
    Cutout result;
    result.top = static_cast<int>(random.below(static_cast<std::uint32_t>(height))) - side / 2;
    result.left = static_cast<int>(random.below(static_cast<std::uint32_t>(width))) - side / 2;
    result.height = result.width = side;
    return result;
  }
};

/// A random rectangle of zeros in a standardised image.
struct Erasing : Rectangle {
  /// With `probability`, by numbers from `random`: 2 to 33 % of the image, width over height from
  /// 1/3.3 to 1/0.3, both as torchvision's RandomErasing.
  static HOST_DEVICE Erasing draw(Random& random, float probability, std::int64_t height,
                                  std::int64_t width) {
    constexpr float kLeastLog = -1.2039728f, kMostLog = 1.1939225f;  // of 0.3 and 3.3
    Erasing result;
    if (random.uniform() >= probability) return result;
    const auto edge = [](double area) { return static_cast<int>(std::sqrt(area) + 0.5); };
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = static_cast<double>(height * width) * random.uniform(0.02f, 0.33f),
                   ratio = power_of_e(random.uniform(kLeastLog, kMostLog));
      const int tall = edge(area * ratio), wide = edge(area / ratio);
      if (tall >= height || wide >= width) continue;
      result.height = tall;
      result.width = wide;
      result.top = static_cast<int>(random.below(static_cast<std::uint32_t>(height - tall + 1)));
      result.left = static_cast<int>(random.below(static_cast<std::uint32_t>(width - wide + 1)));
      return result;
    }
    return result;
  }

 private:
  /// e^x for |x| < 2 by its series: libraries of host and device differ in the last bits.
  static HOST_DEVICE double power_of_e(double x) {
    double sum = 1;
    for (int n = 20; n > 0; --n) sum = std::fma(sum, x / n, 1.0);
    return sum;
  }
};

/// The changes of training to the standardised values of one image. A further augmentation of
/// values is a struct like Cutout, a member here and an option in Mixing.
struct ImageEdits {
  Cutout cutout;
  Erasing erasing;

  static HOST_DEVICE ImageEdits draw(const Mixing& options, std::uint64_t seed, std::uint32_t epoch,
                                     std::uint32_t sample, std::int64_t height,
                                     std::int64_t width) {
    ImageEdits edits;
    if (options.cutout > 0)
      edits.cutout = Cutout::draw(seed, epoch, sample, options.cutout, height, width);
    if (options.erase > 0) {
      Random random(seed, Purpose::erase, epoch, sample);
      edits.erasing = Erasing::draw(random, options.erase, height, width);
    }
    return edits;
  }
  /// The edited value of a pixel that has `value`.
  HOST_DEVICE float at(int row, int column, float value) const {
    return cutout.has(row, column) || erasing.has(row, column) ? 0.0f : value;
  }
  /// Edits the image at `y` as Rectangle::clear() does.
  template <class T, class Team>
  HOST_DEVICE void apply(T* y, int lines, int columns, int channels, Team team) const {
    cutout.clear(y, lines, columns, channels, team);
    erasing.clear(y, lines, columns, channels, team);
  }
};

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

/// The mix of a sample of height x width pixels by mixup or CutMix, as `options` say: by chance one
/// of them if both are asked for. At least one is.
Mix draw_mix(const Mixing& options, std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample,
             std::int64_t size, std::int64_t height, std::int64_t width);

}  // namespace lockstep
