#include <array>
#include <utility>

#include "src/base/check.h"
#include "src/base/option_rows.h"
#include "src/base/text.h"
#include "src/data/image/photo_edits.h"
#include "src/data/photo_augmentations.h"

namespace lockstep {
namespace {

constexpr std::array<const char*, 4> kNames{"brightness", "contrast", "saturation", "hue"};
constexpr std::size_t kHue = 3;

/// torchvision's grey, which is cut off and not rounded.
float brightness_of(const std::uint8_t* rgb) {
  return std::floor(0.2989f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]);
}

std::int64_t pixels_of(const Image& image) { return image.size.height * image.size.width; }

/// Turns the hue of one pixel; values from 0 to 1.
void turn_hue(float* rgb, float turns) {
  const float r = rgb[0], g = rgb[1], b = rgb[2], most = std::max({r, g, b}),
              least = std::min({r, g, b}), range = most - least;
  if (range == 0) return;
  // From RGB to HSV, and back with another hue. The cases are the six sectors of the colour circle.
  const float saturation = range / most, rc = (most - r) / range, gc = (most - g) / range,
              bc = (most - b) / range;
  float hue = 4 + gc - rc;  // blue is the largest
  if (most == g) hue = 2 + rc - bc;
  if (most == r) hue = bc - gc;
  hue = hue / 6 + 1 + turns;
  hue = (hue - std::floor(hue)) * 6;
  const float sector = std::floor(hue), f = hue - sector, p = most * (1 - saturation),
              q = most * (1 - saturation * f), t = most * (1 - saturation * (1 - f));
  const std::array<std::array<float, 3>, 6> colours{
      {{most, t, p}, {q, most, p}, {p, most, t}, {p, q, most}, {t, p, most}, {most, p, q}}};
  const auto& colour = colours[static_cast<std::size_t>(sector) % 6];
  std::ranges::copy(colour, rgb);
}

}  // namespace

void adjust_brightness(Image& image, float factor) {
  for (std::uint8_t& value : image.pixels) value = blended(value, 0, factor);
}

void adjust_contrast(Image& image, float factor) {
  double sum = 0;
  for (std::int64_t i = 0; i < pixels_of(image); ++i) sum += brightness_of(&image.pixels[3 * i]);
  const float mean = sum / pixels_of(image);
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
    for (int c = 0; c < 3; ++c) rgb[c] = bytes[c] / 255.0f;
    turn_hue(rgb, turns);
    for (int c = 0; c < 3; ++c) bytes[c] = to_byte(rgb[c] * 255.999f);
  }
}

void ColorJitter::declare(OptionRows& rows) {
  const std::string name = "--color-jitter";
  const auto read = [this, name](const std::string& text) {
    std::string lines = text;
    std::ranges::replace(lines, ',', '\n');
    const std::vector<std::string> numbers = lines_of(lines);
    if (numbers.size() != bounds.size()) {
      fail_usage("{}: \"{}\" is not four numbers. Pass {}, such as 0.4,0.4,0.4,0.1.", name, text,
                 fmt::join(kNames, ","));
    }
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      bounds[i] = parse_number<double>(fmt::format("{}: {}", name, kNames[i]), numbers[i],
                                       Bounds::at_least(0, i == kHue ? 0.5 : 1));
    }
  };
  rows.add(
          name, OptionRow::Type::word, read,
          [this] { return fmt::format("{}", fmt::join(bounds, ",")); }, "B,C,S,H",
          "Largest random changes of brightness, contrast, saturation, hue, with --image-size\n"
          "Each is from 0 to 1, hue to 0.5; 0: none. It works as torchvision's ColorJitter.")
      .shapes_weights()
      .only_with("--image-size")
      .example("0.4,0.4,0.4,0.1")
      .also_called({"brightness", "contrast", "saturation", "hue"});
}

std::string ColorJitter::text() const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] > 0) parts.push_back(fmt::format("{} {:g}", kNames[i], bounds[i]));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void ColorJitter::apply(Image& image, Random& random) const {
  if (bounds == decltype(bounds){}) return;
  // The changes do not commute, so torchvision applies them in random order. All numbers are drawn
  // whatever the bounds are.
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::uint32_t i = 4; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  constexpr void (*kAdjust[])(Image&, float){adjust_brightness, adjust_contrast, adjust_saturation,
                                             adjust_hue};
  std::array<float, 4> factors{};
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    const float most = bounds[i];
    factors[i] = i == kHue ? random.uniform(-most, most)
                           : random.uniform(std::max(0.0f, 1 - most), 1 + most);
  }
  for (const int which : order)
    if (bounds[which] > 0) kAdjust[which](image, factors[which]);
}

}  // namespace lockstep
