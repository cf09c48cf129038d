#include <algorithm>
#include <cmath>

#include "src/base/check.h"
#include "src/data/image/image.h"

namespace lockstep {
namespace {

/// The input pixels that an output pixel sees, and their weights, which add up to 1.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

std::vector<Taps> taps_of(std::int64_t from, std::int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to),
               reach = std::max(step, 1.0);
  std::vector<Taps> taps(to);
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * step;
    const auto begin = std::max(std::int64_t{0}, static_cast<std::int64_t>(centre - reach + 0.5)),
               end = std::min(from, static_cast<std::int64_t>(centre + reach + 0.5));
    taps[i].first = begin;
    double sum = 0;
    for (std::int64_t x = begin; x < end; ++x) {
      const double distance = std::abs(static_cast<double>(x) + 0.5 - centre) / reach;
      const double weight = std::max(0.0, 1 - distance);
      taps[i].weights.push_back(static_cast<float>(weight));
      sum += weight;
    }
    for (float& weight : taps[i].weights) weight /= static_cast<float>(sum);
  }
  return taps;
}

/// line[i] = the sum of rows times weights. The compiler makes vectors of it.
void add_rows(const std::uint8_t* rows, std::int64_t stride, const Taps& taps, std::int64_t count,
              float* line) {
  std::fill_n(line, count, 0.0f);
  for (const float weight : taps.weights) {
    for (std::int64_t i = 0; i < count; ++i) line[i] += weight * static_cast<float>(rows[i]);
    rows += stride;
  }
}

}  // namespace

Box centre_box(const ImageSize& image, std::int64_t height, std::int64_t width, double share) {
  const double scale = share * std::min(static_cast<double>(image.height) / height,
                                        static_cast<double>(image.width) / width);
  const auto edge = [&](std::int64_t of, std::int64_t limit) {
    return std::clamp<std::int64_t>(std::llround(scale * static_cast<double>(of)), 1, limit);
  };
  Box box{0, 0, edge(height, image.height), edge(width, image.width)};
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

Box random_box(const ImageSize& image, const RandomBox& bounds, Random& random) {
  const double height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  const auto least = static_cast<float>(std::log(bounds.least_ratio)),
             most = static_cast<float>(std::log(bounds.most_ratio));
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width *
                        random.uniform(static_cast<float>(bounds.least_area),
                                       static_cast<float>(bounds.most_area)),
                 ratio = std::exp(double{random.uniform(least, most)});
    Box box{0, 0, std::llround(std::sqrt(area / ratio)), std::llround(std::sqrt(area * ratio))};
    if (box.height < 1 || box.width < 1 || box.height > image.height || box.width > image.width)
      continue;
    box.top = random.below(static_cast<std::uint32_t>(image.height - box.height + 1));
    box.left = random.below(static_cast<std::uint32_t>(image.width - box.width + 1));
    return box;
  }
  const double ratio = std::clamp(width / height, bounds.least_ratio, bounds.most_ratio);
  Box box{0, 0, image.height, image.width};
  if (width / height < ratio) box.height = std::llround(width / ratio);
  if (width / height > ratio) box.width = std::llround(height * ratio);
  box.height = std::clamp<std::int64_t>(box.height, 1, image.height);
  box.width = std::clamp<std::int64_t>(box.width, 1, image.width);
  box.top = (image.height - box.height) / 2;
  box.left = (image.width - box.width) / 2;
  return box;
}

void resize(const Image& image, const Box& box, std::int64_t height, std::int64_t width,
            std::uint8_t* out) {
  expect(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
             box.top + box.height <= image.size.height && box.left + box.width <= image.size.width,
         "a part that is resized lies in its image");
  const std::int64_t stride = 3 * image.size.width, count = 3 * box.width;
  const std::uint8_t* begin = image.pixels.data() + box.top * stride + 3 * box.left;
  const std::vector<Taps> rows = taps_of(box.height, height), columns = taps_of(box.width, width);
  std::vector<float> line(count);
  for (const Taps& row : rows) {
    add_rows(begin + row.first * stride, stride, row, count, line.data());
    for (const Taps& column : columns) {
      const float* from = line.data() + 3 * column.first;
      float sum[3] = {0.5f, 0.5f, 0.5f};
      for (const float weight : column.weights) {
        for (int c = 0; c < 3; ++c) sum[c] += weight * from[c];
        from += 3;
      }
      for (const float value : sum)
        *out++ = static_cast<std::uint8_t>(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

}  // namespace lockstep
