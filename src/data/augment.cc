#include "src/data/augment.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr int kCropPlane = kCropSide * kCropSide;
constexpr int kCropValues = kImageChannels * kCropPlane;

/// Copies the crop of one plane, flipped if wanted.
void cut(const std::uint8_t* plane, const Augmentation& how, std::uint8_t* crop) {
  for (int row = 0; row < kCropSide; ++row, crop += kCropSide) {
    const std::uint8_t* from = plane + (how.top + row) * kImageSide + how.left;
    if (how.flip) {
      std::reverse_copy(from, from + kCropSide, crop);
    } else {
      std::copy(from, from + kCropSide, crop);
    }
  }
}

}  // namespace

Augmentation Augmentation::draw(Random& random) {
  constexpr int kPlaces = kImageSide - kCropSide + 1;
  Augmentation result;
  result.top = static_cast<int>(random.below(kPlaces));
  result.left = static_cast<int>(random.below(kPlaces));
  result.flip = random.below(2) == 1;
  result.brightness = random.uniform(-63.0f, 63.0f);
  result.contrast = random.uniform(0.2f, 1.8f);
  return result;
}

// Brightness, contrast and standardisation are each affine per channel, hence so are all three
// together: y = x * scale + shift[c], and everything that scale and shift depend on follows from
// the sums of x and x^2 per channel, which integers hold exactly. With m[c] and v[c] the mean and
// variance of channel c in the crop, m the mean of the m[c], f the contrast and b the brightness,
// the augmented values have mean m + b and variance mean over c of (f^2 v[c] + (m[c] - m)^2). The
// brightness falls out of y: without clipping, standardisation takes away again whatever is added
// to all values alike.
void augment(const std::uint8_t* planes, const Augmentation& how, void* out, Type type) {
  std::uint8_t crop[kImageChannels][kCropPlane];
  double mean[kImageChannels], variance[kImageChannels], mean_of_all = 0, variance_of_all = 0;
  for (int c = 0; c < kImageChannels; ++c) {
    cut(planes + c * kImagePlane, how, crop[c]);
    std::int32_t sum = 0, squares = 0;  // at most 576 * 255 and 576 * 255^2
    for (const std::int32_t x : crop[c]) {
      sum += x;
      squares += x * x;
    }
    mean[c] = static_cast<double>(sum) / kCropPlane;
    variance[c] =
        static_cast<double>(std::int64_t{squares} * kCropPlane - std::int64_t{sum} * sum) /
        (static_cast<double>(kCropPlane) * kCropPlane);
    mean_of_all += mean[c] / kImageChannels;
  }
  const double contrast = how.contrast;
  for (int c = 0; c < kImageChannels; ++c) {
    const double offset = mean[c] - mean_of_all;
    variance_of_all += (contrast * contrast * variance[c] + offset * offset) / kImageChannels;
  }
  const double deviation = std::max(std::sqrt(variance_of_all), 1 / std::sqrt(double{kCropValues}));
  const auto scale = static_cast<float>(contrast / deviation);
  float shift[kImageChannels];
  for (int c = 0; c < kImageChannels; ++c) {
    shift[c] = static_cast<float>(((1 - contrast) * mean[c] - mean_of_all) / deviation);
  }
  dispatch(type, [&]<class T>(T*) {
    T* y = static_cast<T*>(out);
    for (int i = 0; i < kCropPlane; ++i) {
      for (int c = 0; c < kImageChannels; ++c) {
        y[i * kImageChannels + c] = T(static_cast<float>(crop[c][i]) * scale + shift[c]);
      }
    }
  });
}

void read_image(const std::uint8_t* planes, Random* random, void* out, Type type) {
  augment(planes, random ? Augmentation::draw(*random) : Augmentation{}, out, type);
}

}  // namespace lockstep
