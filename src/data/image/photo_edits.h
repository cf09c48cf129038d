// The work of ColorJitter and TrivialAugment (photo_augmentations.h). They change the bytes as
// torchvision's functions for uint8 tensors do, to 1/255.
//
// Sources: torchvision 0.29, transforms.ColorJitter and TrivialAugmentWide; Mueller, Hutter,
// "TrivialAugment: tuning-free yet state-of-the-art data augmentation", ICCV 2021.
#pragma once

#include <algorithm>
#include <cmath>

#include "src/data/image/image.h"

namespace lockstep {

inline std::uint8_t to_byte(float value) {
  return static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

/// `factor` of `value` and the rest of `other`.
inline std::uint8_t blended(std::uint8_t value, float other, float factor) {
  return to_byte(std::fma(factor, static_cast<float>(value), (1 - factor) * other));
}

/// Operation 0 to 13, in torchvision's order, with strength `bin` of 0 to 30.
void apply_operation(Image& image, int operation, int bin, bool negative);

// Changes of colours. A factor of 1 changes nothing.

void adjust_brightness(Image& image, float factor);
void adjust_contrast(Image& image, float factor);
void adjust_saturation(Image& image, float factor);
/// Turns the colours by `turns` of the colour circle, -0.5 to 0.5.
void adjust_hue(Image& image, float turns);

}  // namespace lockstep
