// TrivialAugmentWide: its operations and their strengths.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/base/elementary.h"
#include "src/base/option_rows.h"
#include "src/data/image/photo_edits.h"
#include "src/data/photo_augmentations.h"

namespace lockstep {
namespace {

constexpr int kBins = 31;

void adjust_sharpness(Image& image, float factor) {
  const std::int64_t height = image.size.height, row = 3 * image.size.width;
  if (height < 3 || row < 9) return;
  const std::vector<std::uint8_t> before = image.pixels;
  // The filter has 3 x 3 weights, 5 in the middle and 1 around it. Pixels at the edges stay.
  for (std::int64_t y = 1; y + 1 < height; ++y) {
    for (std::int64_t i = 3; i + 3 < row; ++i) {
      const std::uint8_t* at = &before[y * row + i];
      int sum = 4 * at[0];
      for (const std::int64_t line : {-row, std::int64_t{0}, row})
        sum += at[line - 3] + at[line] + at[line + 3];
      const float blurred = std::nearbyint(static_cast<float>(sum) / 13);
      image.pixels[y * row + i] = blended(at[0], blurred, factor);
    }
  }
}

/// Keeps the upper `bits` of each value.
void posterize(Image& image, int bits) {
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - bits));
  for (std::uint8_t& value : image.pixels) value &= mask;
}

/// The complement of values from `threshold` on.
void solarize(Image& image, float threshold) {
  for (std::uint8_t& value : image.pixels)
    if (value >= threshold) value = static_cast<std::uint8_t>(255 - value);
}

using Histogram = std::array<std::int64_t, 256>;
using ByteTable = std::array<std::uint8_t, 256>;

/// Replaces the values of each channel as table(histogram) says.
template <class Table>
void map_channels(Image& image, const Table& table) {
  for (std::size_t c = 0; c < 3; ++c) {
    Histogram histogram{};
    for (std::size_t i = c; i < image.pixels.size(); i += 3) ++histogram[image.pixels[i]];
    const ByteTable to = table(histogram);
    for (std::size_t i = c; i < image.pixels.size(); i += 3) image.pixels[i] = to[image.pixels[i]];
  }
}

ByteTable unchanged() {
  ByteTable table;
  std::iota(table.begin(), table.end(), std::uint8_t{0});
  return table;
}

/// Stretches each channel to 0 .. 255.
void stretch_contrast(Image& image) {
  map_channels(image, [](const Histogram& histogram) {
    ByteTable table = unchanged();
    const auto is_used = [](std::int64_t count) { return count > 0; };
    const auto least = std::ranges::find_if(histogram, is_used) - histogram.begin();
    const auto most =
        255 - (std::find_if(histogram.rbegin(), histogram.rend(), is_used) - histogram.rbegin());
    if (most <= least) return table;
    const float scale = 255.0f / (most - least);
    for (std::ptrdiff_t i = least; i <= most; ++i) table[i] = to_byte((i - least) * scale);
    return table;
  });
}

/// Makes the histogram of each channel even.
void equalize(Image& image) {
  map_channels(image, [](const Histogram& histogram) {
    ByteTable table = unchanged();
    const auto last =
        std::find_if(histogram.rbegin(), histogram.rend(), [](auto count) { return count > 0; });
    const std::int64_t all = std::accumulate(histogram.begin(), histogram.end(), std::int64_t{0}),
                       step = (all - *last) / 255;
    if (step == 0) return table;
    std::int64_t below = step / 2;
    for (std::size_t i = 0; i < 256; below += histogram[i++])
      table[i] = static_cast<std::uint8_t>(std::min<std::int64_t>(below / step, 255));
    return table;
  });
}

/// The origin of each pixel, in pixels from the middle of the image: x' = a x + b y + c, y' = d x +
/// e y + f.
struct Affine {
  double a = 1, b = 0, c = 0, d = 0, e = 1, f = 0;
};

/// Each pixel from the nearest place; black from beyond the image.
void transform(Image& image, const Affine& from) {
  const std::int64_t height = image.size.height, width = image.size.width;
  const double middle_x = static_cast<double>(width - 1) / 2,
               middle_y = static_cast<double>(height - 1) / 2;
  const std::vector<std::uint8_t> before =
      std::exchange(image.pixels, std::vector<std::uint8_t>(image.pixels.size()));
  for (std::int64_t row = 0; row < height; ++row) {
    const double y = row - middle_y;
    for (std::int64_t column = 0; column < width; ++column) {
      const double x = column - middle_x,
                   to_x = std::nearbyint(from.a * x + from.b * y + from.c + middle_x),
                   to_y = std::nearbyint(from.d * x + from.e * y + from.f + middle_y);
      if (to_x < 0 || to_y < 0 || to_x >= width || to_y >= height) continue;
      const auto place = static_cast<std::int64_t>(to_y) * width + static_cast<std::int64_t>(to_x);
      std::copy_n(&before[3 * place], 3, &image.pixels[3 * (row * width + column)]);
    }
  }
}

double height_of(const Image& image) { return image.size.height; }
double width_of(const Image& image) { return image.size.width; }

float factor_of(double strength) { return 1 + 0.99 * strength; }

/// An operation changes an image by `strength`, -1 to 1: a bin over 30, and a sign.
using Operation = void (*)(Image& image, double strength, int bin);

// In torchvision's order.
constexpr Operation kOperations[] = {
    [](Image&, double, int) {},
    [](Image& image, double strength, int) {
      transform(image, {.b = 0.99 * strength, .c = 0.99 * strength * height_of(image) / 2});
    },
    [](Image& image, double strength, int) {
      transform(image, {.d = 0.99 * strength, .f = 0.99 * strength * width_of(image) / 2});
    },
    [](Image& image, double strength, int) { transform(image, {.c = -std::trunc(32 * strength)}); },
    [](Image& image, double strength, int) { transform(image, {.f = -std::trunc(32 * strength)}); },
    [](Image& image, double strength, int) {
      const double turns = 0.375 * strength, cosine = cosine_of_turns(turns),
                   sine = sine_of_turns(turns);
      transform(image, {.a = cosine, .b = -sine, .d = sine, .e = cosine});
    },
    [](Image& image, double strength, int) { adjust_brightness(image, factor_of(strength)); },
    [](Image& image, double strength, int) { adjust_saturation(image, factor_of(strength)); },
    [](Image& image, double strength, int) { adjust_contrast(image, factor_of(strength)); },
    [](Image& image, double strength, int) { adjust_sharpness(image, factor_of(strength)); },
    [](Image& image, double, int bin) { posterize(image, 8 - (bin + 2) / 5); },
    [](Image& image, double, int bin) { solarize(image, 255 - 8.5f * bin); },
    [](Image& image, double, int) { stretch_contrast(image); },
    [](Image& image, double, int) { equalize(image); }};

}  // namespace

void apply_operation(Image& image, int operation, int bin, bool negative) {
  const double strength = double{1} * bin / (kBins - 1);
  kOperations[operation](image, negative ? -strength : strength, bin);
}

void TrivialAugment::declare(OptionRows& rows) {
  rows.flag("--trivial-augment", on,
            "One random operation on each training image, with --image-size\n"
            "It works as torchvision's TrivialAugmentWide.")
      .shapes_weights()
      .only_with("--image-size");
}

void TrivialAugment::apply(Image& image, Random& random) const {
  if (!on) return;
  const int operation = random.below(std::size(kOperations));
  const int bin = random.below(kBins);
  const bool negative = random.below(2) == 1;
  apply_operation(image, operation, bin, negative);
}

}  // namespace lockstep
