// The input pipeline of the TensorFlow CIFAR-10 tutorial: 32x32 images in three 8-bit planes become
// 24x24 network inputs.
//
// Training: random crop, random horizontal flip, random brightness, random contrast (about each
// channel's mean over the crop), standardisation. Evaluation: central crop, standardisation. Values
// are never clipped on the way, as there. Crops that reach beyond the image see it reflected.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/base/random.h"
#include "src/base/view.h"
#include "src/data/dataset.h"

namespace lockstep {

inline constexpr int kImageSide = 32, kCropSide = 24, kImageChannels = 3;
inline constexpr int kImagePlane = kImageSide * kImageSide;  ///< values in one plane
inline constexpr int kImageValues =
    kImageChannels * kImagePlane;  ///< bytes of an image: R plane, G plane, B plane
inline Shape crop_shape() { return {1, kCropSide, kCropSide, kImageChannels}; }
inline constexpr SampleFormat kCroppedImages{
    .kind = SampleFormat::Kind::crops,
    .size = {kImageSide, kImageSide, kImageChannels, /*planes=*/true}};

/// The element at place `i` of `extent` elements that are reflected at both ends.
constexpr int reflected(int i, int extent) {
  if (i >= 0 && i < extent) return i;
  if (extent == 1) return 0;
  const int period = 2 * (extent - 1), place = ((i % period) + period) % period;
  return place < extent ? place : period - place;
}

/// Whether training mirrors an image left to right, by chance each time. `random` is the stream of
/// the sample and epoch. With `alternate` the sample's own coin decides in epoch 0. From then on it
/// takes turns, so that two epochs in a row see both. Both ways spend one number of `random`,
/// because kernels keep their place in the stream in a register. Source: Jordan, "94% on CIFAR-10
/// in 3.29 seconds on a single GPU", 2024, 3.6.
constexpr bool draw_flip(Random& random, bool alternate) {
  const bool chance = random.below(2) == 1;
  return alternate ? (random.coin() ^ random.epoch()) % 2 == 1 : chance;
}

/// The augmentation of one image before its standardisation. As constructed, that of evaluation.
struct Augmentation {
  int top = (kImageSide - kCropSide) / 2, left = top;  ///< of the crop
  bool flip = false;                                   ///< left and right, after the crop
  float brightness = 0;                                ///< added to every value
  float contrast = 1;                                  ///< factor about the channel's mean

  /// Draws, in this order: top and left in 0 .. 8, and `padding` pixels beyond them, flip,
  /// brightness in [-63, 63), contrast in [0.2, 1.8).
  static constexpr Augmentation draw(Random& random, int padding = 0, bool alternate = false) {
    const auto places = static_cast<std::uint32_t>(kImageSide - kCropSide + 1 + 2 * padding);
    Augmentation result;
    result.top = static_cast<int>(random.below(places)) - padding;
    result.left = static_cast<int>(random.below(places)) - padding;
    result.flip = draw_flip(random, alternate);
    result.brightness = random.uniform(-63.0f, 63.0f);
    result.contrast = random.uniform(0.2f, 1.8f);
    return result;
  }
};

/// The move of a whole image in training: its window begins at (top, left).
struct Move {
  int top = 0, left = 0;
  bool mirror = false;

  /// Draws, in this order: top and left in -most .. most, mirror.
  static constexpr Move draw(Random& random, int most, bool alternate = false) {
    const auto places = static_cast<std::uint32_t>(2 * most + 1);
    Move move;
    move.top = static_cast<int>(random.below(places)) - most;
    move.left = static_cast<int>(random.below(places)) - most;
    move.mirror = draw_flip(random, alternate);
    return move;
  }
};

/// Brightness, contrast and standardisation together: y = x * scale + shift[c], each rounded once.
//
// All three are affine per channel, so their composition is too. Scale and shift follow from the
// sums of x and x^2 per channel, which are exact in integers. Let m[c] and v[c] be the mean and
// variance of channel c in the crop, m the mean of the m[c], f the contrast and b the brightness.
// The augmented values have the mean m + b, and as variance the mean over c of (f^2 v[c] + (m[c] -
// m)^2). The brightness cancels: without clipping, standardisation subtracts it again.
struct Standardisation {
  static constexpr int kPlane = kCropSide * kCropSide;
  float scale = 1, shift[kImageChannels] = {};

  /// `sums` and `squares`: of x and x^2 over each channel of the crop, at most 576 * 255 and
  /// 576 * 255^2.
  HOST_DEVICE static Standardisation of(const std::int32_t* sums, const std::int32_t* squares,
                                        float factor) {
    const double contrast = factor;
    double mean[kImageChannels], mean_of_all = 0, variance_of_all = 0;
    for (int c = 0; c < kImageChannels; ++c) {
      mean[c] = static_cast<double>(sums[c]) / kPlane;
      mean_of_all += mean[c] / kImageChannels;
    }
    for (int c = 0; c < kImageChannels; ++c) {
      const double variance =
          static_cast<double>(std::int64_t{squares[c]} * kPlane - std::int64_t{sums[c]} * sums[c]) /
          (static_cast<double>(kPlane) * kPlane);
      const double offset = mean[c] - mean_of_all;
      variance_of_all += std::fma(contrast * contrast, variance, offset * offset) / kImageChannels;
    }
    const double deviation =
        std::max(std::sqrt(variance_of_all), 1 / std::sqrt(double{kImageChannels * kPlane}));
    Standardisation result;
    result.scale = static_cast<float>(contrast / deviation);
    for (int c = 0; c < kImageChannels; ++c) {
      result.shift[c] =
          static_cast<float>(std::fma(1 - contrast, mean[c], -mean_of_all) / deviation);
    }
    return result;
  }

  HOST_DEVICE float operator()(std::uint8_t x, int channel) const {
    return std::fma(static_cast<float>(x), scale, shift[channel]);
  }
};

}  // namespace lockstep
