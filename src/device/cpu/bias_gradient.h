// The gradient of a bias that is added to every pixel. Only src/device/cpu includes this.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/view.h"
#include "src/device/parallel_for.h"

namespace lockstep {

/// sum = the sum of one image's dy, `pixels` x `channels`, over its pixels.
template <class T>
void bias_gradient_of_image(const T* __restrict dy, std::int64_t pixels, std::int64_t channels,
                            float* __restrict sum) {
  std::fill_n(sum, channels, 0.0f);
  for (std::int64_t i = 0; i < pixels; ++i, dy += channels) {
    for (std::int64_t c = 0; c < channels; ++c) sum[c] += static_cast<float>(dy[c]);
  }
}

/// db = the sum of the images' sums, N x C.
inline void add_images(const float* by_image, std::int64_t images, std::int64_t channels,
                       float* db) {
  std::fill_n(db, channels, 0.0f);
  for (std::int64_t n = 0; n < images; ++n) {
    for (std::int64_t c = 0; c < channels; ++c) db[c] += by_image[n * channels + c];
  }
}

/// db = the sum of dy (of `shape`, N, H, W, C) over all pixels, image by image, then over the
/// images. The bits do not depend on the number of threads. `by_image` has room for N * C floats.
template <class T>
void bias_gradient(int threads, const T* dy, const Shape& shape, float* db, float* by_image) {
  const std::int64_t images = shape[0], pixels = shape[1] * shape[2], channels = shape[3];
  parallel_for(threads, images, 1, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n)
      bias_gradient_of_image(dy + n * pixels * channels, pixels, channels, by_image + n * channels);
  });
  add_images(by_image, images, channels, db);
}

}  // namespace lockstep
