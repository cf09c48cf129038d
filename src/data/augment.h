// The input pipeline of the TensorFlow CIFAR-10 tutorial: 32x32 images in three 8-bit planes become
// 24x24 network inputs.
//
// Training: random crop, random horizontal flip, random brightness, random contrast (about each
// channel's mean over the crop), standardisation. Evaluation: central crop, standardisation. Values
// are never clipped on the way, as there.
#pragma once

#include <cstdint>

#include "src/random.h"
#include "src/view.h"

namespace lockstep {

inline constexpr int kImageSide = 32, kCropSide = 24, kImageChannels = 3;
inline constexpr int kImagePlane = kImageSide * kImageSide;  ///< values in one plane
inline constexpr int kImageValues =
    kImageChannels * kImagePlane;  ///< bytes of an image: R plane, G plane, B plane
inline Shape crop_shape() { return {1, kCropSide, kCropSide, kImageChannels}; }

/// What is done to one image before its standardisation; as constructed, what evaluation does.
struct Augmentation {
  int top = (kImageSide - kCropSide) / 2, left = top;  ///< of the crop
  bool flip = false;                                   ///< left and right, after the crop
  float brightness = 0;                                ///< added to every value
  float contrast = 1;                                  ///< factor about the channel's mean

  /// Draws, in this order: top and left in 0 .. 8, flip, brightness in [-63, 63), contrast in
  /// [0.2, 1.8).
  static Augmentation draw(Random& random);
};

/// Writes 24 x 24 x 3 values (H, W, C) of `type`, f32 or bf16, to `out`: y = (x - mean) /
/// max(deviation, 1 / sqrt(1728)) with mean and (population) standard deviation of all 1728
/// augmented values. `planes`: kImageValues bytes.
void augment(const std::uint8_t* planes, const Augmentation& augmentation, void* out, Type type);

/// The same with an Augmentation drawn from `random`, or that of evaluation where there is none:
/// Dataset::read for such images.
void read_image(const std::uint8_t* planes, Random* random, void* out, Type type);

}  // namespace lockstep
