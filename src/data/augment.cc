#include "src/data/augment.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr int kCropPlane = Standardisation::kPlane;

/// Copies the crop of one plane, flipped if wanted.
void cut(const std::uint8_t* plane, const Augmentation& how, std::uint8_t* crop) {
  const bool inside = how.left >= 0 && how.left <= kImageSide - kCropSide;
  for (int row = 0; row < kCropSide; ++row, crop += kCropSide) {
    const std::uint8_t* line = plane + reflected(how.top + row, kImageSide) * kImageSide;
    const std::uint8_t* from = line + how.left;
    if (!inside) {
      for (int i = 0; i < kCropSide; ++i) {
        const int x = how.flip ? kCropSide - 1 - i : i;
        crop[i] = line[reflected(how.left + x, kImageSide)];
      }
    } else if (how.flip) {
      std::reverse_copy(from, from + kCropSide, crop);
    } else {
      std::copy(from, from + kCropSide, crop);
    }
  }
}

}  // namespace

void augment(const std::uint8_t* planes, const Augmentation& how, void* out, Type type) {
  std::uint8_t crop[kImageChannels][kCropPlane];
  std::int32_t sums[kImageChannels] = {}, squares[kImageChannels] = {};
  for (int c = 0; c < kImageChannels; ++c) {
    cut(planes + c * kImagePlane, how, crop[c]);
    for (const std::int32_t x : crop[c]) {
      sums[c] += x;
      squares[c] += x * x;
    }
  }
  const auto standardised = Standardisation::of(sums, squares, how.contrast);
  dispatch(type, [&]<class T>(T*) {
    T* y = static_cast<T*>(out);
    for (int i = 0; i < kCropPlane; ++i) {
      for (int c = 0; c < kImageChannels; ++c) {
        y[i * kImageChannels + c] = T(standardised(crop[c][i], c));
      }
    }
  });
}

void read_image(const std::uint8_t* planes, Random* random, void* out, Type type, int padding,
                bool alternate) {
  augment(planes, random ? Augmentation::draw(*random, padding, alternate) : Augmentation{}, out,
          type);
}

}  // namespace lockstep
