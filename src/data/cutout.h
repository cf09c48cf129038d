// Cutout. Source: DeVries, Taylor, "Improved regularization of convolutional neural networks with
// cutout", 2017.
#pragma once

#include <cstdint>

#include "src/base/random.h"
#include "src/data/augmentation.h"

namespace lockstep {

/// A square hole around any pixel of the image: a part of it may lie outside.
struct Cutout {
  static constexpr AugmentationOption kOption{
      "cutout", "Side in pixels of the square cut from training images; 0: none", "cutout", 1024,
      "8"};
  static constexpr Purpose kStream{6};
  int value = 0;

  constexpr int least_edge() const { return value; }
  constexpr Hole draw(Random& random, std::int64_t height, std::int64_t width) const {
    Hole hole;
    hole.top = static_cast<int>(random.below(static_cast<std::uint32_t>(height))) - value / 2;
    hole.left = static_cast<int>(random.below(static_cast<std::uint32_t>(width))) - value / 2;
    hole.height = hole.width = value;
    return hole;
  }
};

}  // namespace lockstep
