// Random erasing. Source: Zhong et al., "Random erasing data augmentation", AAAI 2020.
#pragma once

#include <cmath>
#include <cstdint>

#include "src/base/random.h"
#include "src/data/augmentation.h"

namespace lockstep {

/// By chance a hole of 2 to 33 % of the image, whose width over height is 1/3.3 to 1/0.3, both as
/// torchvision's RandomErasing.
struct RandomErasing {
  static constexpr AugmentationOption kOption{
      "random-erase",
      "Probability of a random rectangle cut from a training image\n"
      "It covers 2 to 33 % of the image, as torchvision's RandomErasing.",
      "random erasing", 1, "0.25"};
  static constexpr Purpose kStream{8};
  float value = 0;

  HOST_DEVICE Hole draw(Random& random, std::int64_t height, std::int64_t width) const {
    constexpr float kLeastLog = -1.2039728f, kMostLog = 1.1939225f;  // of 0.3 and 3.3
    Hole hole;
    if (random.uniform() >= value) return hole;
    const auto edge = [](double area) { return static_cast<int>(std::sqrt(area) + 0.5); };
    for (int attempt = 0; attempt < 10; ++attempt) {
      const double area = static_cast<double>(height * width) * random.uniform(0.02f, 0.33f),
                   ratio = power_of_e(random.uniform(kLeastLog, kMostLog));
      const int tall = edge(area * ratio), wide = edge(area / ratio);
      if (tall >= height || wide >= width) continue;
      hole.height = tall;
      hole.width = wide;
      hole.top = static_cast<int>(random.below(static_cast<std::uint32_t>(height - tall + 1)));
      hole.left = static_cast<int>(random.below(static_cast<std::uint32_t>(width - wide + 1)));
      return hole;
    }
    return hole;
  }

 private:
  /// e^x for |x| < 2 by its series: libraries of host and device differ in the last bits.
  static HOST_DEVICE double power_of_e(double x) {
    double sum = 1;
    for (int n = 20; n > 0; --n) sum = std::fma(sum, x / n, 1.0);
    return sum;
  }
};

}  // namespace lockstep
