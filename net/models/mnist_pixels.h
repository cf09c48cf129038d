// The first layer of published examples on MNIST.
#pragma once

#include "net/layers.h"

namespace lockstep {

/// From the standardised pixels of src/data/sets/mnist.h to pixels between 0 and 1.
inline std::unique_ptr<Layer> pixels_from_mnist() {
  constexpr float kMean = 33.318421f, kDeviation = 78.567490f;
  return rescale(kDeviation / 255, kMean / 255);
}

}  // namespace lockstep
