// What examples on MNIST begin with.
#pragma once

#include "net/layers.h"

namespace lockstep {

/// Pixels between 0 and 1, which the examples take, of those that src/data/sets/mnist.h gives.
inline std::unique_ptr<Layer> pixels_from_mnist() {
  constexpr float kMean = 33.318421f, kDeviation = 78.567490f;
  return rescale(kDeviation / 255, kMean / 255);
}

}  // namespace lockstep
