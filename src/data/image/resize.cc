#include <algorithm>
#include <cmath>
#include <span>

#include "src/base/check.h"
#include "src/base/elementary.h"
#include "src/data/image/image.h"

namespace lockstep {
namespace {

/// The input pixels that each output pixel sees, and their weights, which add up to 1.
/// The weights of the two directions are independent. So each output line is a weighted sum of
/// input lines, of which each output pixel is a weighted sum. Lines come first, because
/// neighbouring values of a line fill vectors.
struct Taps {
  std::vector<std::int64_t> first;
  std::vector<int> count;
  std::int64_t most = 0;  ///< of one output pixel, and the distance of their weights
  std::vector<float> weights;
};

Taps taps_of(std::int64_t from, std::int64_t to) {
  // A triangle as wide as two output pixels lets all input pixels count when an image shrinks.
  // Plain interpolation would skip some, and fine patterns would turn into others.
  const double step = static_cast<double>(from) / to, reach = std::max(step, 1.0);
  Taps taps;
  taps.most = static_cast<std::int64_t>(2 * reach) + 2;
  taps.weights.resize(taps.most * to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * step;
    const auto begin = std::max(std::int64_t{0}, static_cast<std::int64_t>(centre - reach + 0.5)),
               end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    taps.first.push_back(begin);
    taps.count.push_back(end - begin);
    float* weights = &taps.weights[taps.most * i];
    double sum = 0;
    for (std::int64_t x = begin; x < end; ++x) {
      const double distance = std::abs(x + 0.5 - centre) / reach;
      const double weight = std::max(0.0, 1 - distance);
      weights[x - begin] = weight;
      sum += weight;
    }
    for (std::int64_t x = begin; x < end; ++x) weights[x - begin] /= static_cast<float>(sum);
  }
  return taps;
}

/// line[i] = the sum of rows times weights. The compiler makes vectors of it.
void add_rows(const std::uint8_t* rows, std::int64_t stride, std::span<const float> weights,
              std::int64_t count, float* line) {
  std::fill_n(line, count, 0.0f);
  for (const float weight : weights) {
    for (std::int64_t i = 0; i < count; ++i) line[i] += weight * rows[i];
    rows += stride;
  }
}

}  // namespace

/// The part of this size in the middle.
static Box centred(const ImageSize& image, std::int64_t height, std::int64_t width) {
  return {(image.height - height) / 2, (image.width - width) / 2, height, width};
}

Box centre_box(const ImageSize& image, std::int64_t height, std::int64_t width, double share) {
  const double scale = share * std::min(static_cast<double>(image.height) / height,
                                        static_cast<double>(image.width) / width);
  const auto edge = [&](std::int64_t of, std::int64_t limit) {
    return std::clamp<std::int64_t>(std::llround(scale * of), 1, limit);
  };
  return centred(image, edge(height, image.height), edge(width, image.width));
}

Box random_box(const ImageSize& image, double least_area, Random& random) {
  constexpr double kLeastRatio = 3.0 / 4, kMostRatio = 4.0 / 3;
  const double height = image.height, width = image.width;
  const float least = natural_log(kLeastRatio), most = natural_log(kMostRatio);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * random.uniform(least_area, 1.0f),
                 ratio = exponential(double{random.uniform(least, most)});
    Box box{0, 0, std::llround(std::sqrt(area / ratio)), std::llround(std::sqrt(area * ratio))};
    if (box.height < 1 || box.width < 1 || box.height > image.height || box.width > image.width)
      continue;
    box.top = random.below(image.height - box.height + 1);
    box.left = random.below(image.width - box.width + 1);
    return box;
  }
  // A very long or very high image fits none of the ten ratios.
  const double ratio = std::clamp(width / height, kLeastRatio, kMostRatio);
  Box box{0, 0, image.height, image.width};
  if (width / height < ratio) box.height = std::llround(width / ratio);
  if (width / height > ratio) box.width = std::llround(height * ratio);
  return centred(image, std::clamp<std::int64_t>(box.height, 1, image.height),
                 std::clamp<std::int64_t>(box.width, 1, image.width));
}

void flip(Image& image, bool mirrored, bool inverted) {
  const std::int64_t height = image.size.height, row = 3 * image.size.width;
  std::uint8_t* const begin = image.pixels.data();
  for (std::int64_t y = 0; inverted && y < height / 2; ++y)
    std::swap_ranges(begin + y * row, begin + (y + 1) * row, begin + (height - 1 - y) * row);
  for (std::int64_t y = 0; mirrored && y < height; ++y) {
    std::uint8_t *left = begin + y * row, *right = left + row - 3;
    for (; left < right; left += 3, right -= 3) std::swap_ranges(left, left + 3, right);
  }
}

void resize(const Image& image, const Box& box, std::int64_t height, std::int64_t width,
            std::uint8_t* out) {
  expect(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
             box.top + box.height <= image.size.height && box.left + box.width <= image.size.width,
         "a part that is resized lies in its image");
  const std::int64_t stride = 3 * image.size.width, count = 3 * box.width;
  const std::uint8_t* begin = image.pixels.data() + box.top * stride + 3 * box.left;
  const Taps rows = taps_of(box.height, height), columns = taps_of(box.width, width);
  std::vector<float> line(count + 1);  // four values are read for a pixel
  for (std::int64_t y = 0; y < height; ++y) {
    add_rows(begin + rows.first[y] * stride, stride,
             {&rows.weights[rows.most * y], static_cast<std::size_t>(rows.count[y])}, count,
             line.data());
    for (std::int64_t x = 0; x < width; ++x, out += 3) {
      const float *from = line.data() + 3 * columns.first[x],
                  *weights = &columns.weights[columns.most * x];
      // Four values fill a vector, and three do not. The fourth is that of the next pixel and is
      // dropped. 0.5 rounds to the nearest integer.
      float sum[4] = {0.5f, 0.5f, 0.5f, 0.5f};
      for (int i = 0; i < columns.count[x]; ++i, from += 3)
        for (int c = 0; c < 4; ++c) sum[c] += weights[i] * from[c];
      for (int c = 0; c < 3; ++c)
        out[c] = static_cast<std::uint8_t>(std::clamp(sum[c], 0.0f, 255.0f));
    }
  }
}

}  // namespace lockstep
