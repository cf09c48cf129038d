#include "src/data/image/photo_edits.h"

#include <array>
#include <utility>

namespace lockstep {
namespace {

/// torchvision's grey, which is cut off and not rounded.
float brightness_of(const std::uint8_t* rgb) {
  return std::floor(0.2989f * static_cast<float>(rgb[0]) + 0.587f * static_cast<float>(rgb[1]) +
                    0.114f * static_cast<float>(rgb[2]));
}

std::int64_t pixels_of(const Image& image) { return image.size.height * image.size.width; }

/// Turns the hue of one pixel; values from 0 to 1.
void turn_hue(float* rgb, float turns) {
  const float r = rgb[0], g = rgb[1], b = rgb[2], most = std::max({r, g, b}),
              least = std::min({r, g, b}), range = most - least;
  if (range == 0) return;
  const float saturation = range / most, rc = (most - r) / range, gc = (most - g) / range,
              bc = (most - b) / range;
  float hue = most == r ? bc - gc : most == g ? 2 + rc - bc : 4 + gc - rc;
  hue = hue / 6 + 1 + turns;
  hue = (hue - std::floor(hue)) * 6;
  const float sector = std::floor(hue), f = hue - sector, p = most * (1 - saturation),
              q = most * (1 - saturation * f), t = most * (1 - saturation * (1 - f));
  const std::array<std::array<float, 3>, 6> colours{
      {{most, t, p}, {q, most, p}, {p, most, t}, {p, q, most}, {t, p, most}, {most, p, q}}};
  const auto& colour = colours[static_cast<std::size_t>(sector) % 6];
  std::copy(colour.begin(), colour.end(), rgb);
}

}  // namespace

void adjust_brightness(Image& image, float factor) {
  for (std::uint8_t& value : image.pixels) value = blended(value, 0, factor);
}

void adjust_contrast(Image& image, float factor) {
  double sum = 0;
  for (std::int64_t i = 0; i < pixels_of(image); ++i) sum += brightness_of(&image.pixels[3 * i]);
  const auto mean = static_cast<float>(sum / static_cast<double>(pixels_of(image)));
  for (std::uint8_t& value : image.pixels) value = blended(value, mean, factor);
}

void adjust_saturation(Image& image, float factor) {
  for (std::int64_t i = 0; i < pixels_of(image); ++i) {
    std::uint8_t* rgb = &image.pixels[3 * i];
    const float grey = brightness_of(rgb);
    for (int c = 0; c < 3; ++c) rgb[c] = blended(rgb[c], grey, factor);
  }
}

void adjust_hue(Image& image, float turns) {
  for (std::int64_t i = 0; i < pixels_of(image); ++i) {
    std::uint8_t* bytes = &image.pixels[3 * i];
    float rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = static_cast<float>(bytes[c]) / 255;
    turn_hue(rgb, turns);
    for (int c = 0; c < 3; ++c) bytes[c] = to_byte(rgb[c] * 255.999f);
  }
}

void jitter_colours(Image& image, const ColourJitter& bounds, Random& random) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::uint32_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  const auto factor = [&](double bound) {
    const auto most = static_cast<float>(bound);
    return random.uniform(std::max(0.0f, 1 - most), 1 + most);
  };
  const float brightness = factor(bounds.brightness), contrast = factor(bounds.contrast),
              saturation = factor(bounds.saturation),
              turns =
                  random.uniform(-static_cast<float>(bounds.hue), static_cast<float>(bounds.hue));
  for (const int which : order) {
    if (which == 0 && bounds.brightness > 0) adjust_brightness(image, brightness);
    if (which == 1 && bounds.contrast > 0) adjust_contrast(image, contrast);
    if (which == 2 && bounds.saturation > 0) adjust_saturation(image, saturation);
    if (which == 3 && bounds.hue > 0) adjust_hue(image, turns);
  }
}

}  // namespace lockstep
