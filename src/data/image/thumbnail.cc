#include "src/data/image/thumbnail.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/data/image/image.h"

namespace lockstep {
namespace {

std::string base64(const std::vector<std::uint8_t>& bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? bytes[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

/// The stored bytes of a sample, or pixels that look like what a network sees.
std::vector<std::uint8_t> bytes_of(const Dataset& data, std::int64_t index) {
  const SampleFormat& format = data.format();
  if (format.kind != SampleFormat::Kind::values) {
    std::vector<std::uint8_t> bytes(format.bytes());
    const std::uint8_t* const from = data.stored(index, bytes.data());
    if (from != bytes.data()) std::copy_n(from, bytes.size(), bytes.begin());
    return bytes;
  }
  std::vector<std::uint8_t> bytes;
  std::vector<float> seen(data.sample_shape().count());
  data.read(index, nullptr, seen.data(), Type::f32);
  // Values of files are standardised pixels; others have a range of their own.
  const auto [low, high] = std::ranges::minmax_element(seen);
  const float least = *low, range = std::max(*high - *low, 1e-6f);
  const auto& [mean, deviation] = format.normalisation;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const std::size_t c = i % data.sample_shape().back();
    const float pixel = format.files && c < mean.size() ? seen[i] * deviation[c] + mean[c]
                                                        : (seen[i] - least) / range * 255;
    bytes.push_back(static_cast<std::uint8_t>(std::clamp(std::round(pixel), 0.0f, 255.0f)));
  }
  return bytes;
}

Image rgb_of(const Dataset& data, std::int64_t index) {
  const std::vector<std::uint8_t> bytes = bytes_of(data, index);
  ImageSize size = data.format().size;
  if (const Shape shape = data.sample_shape(); data.format().kind == SampleFormat::Kind::values)
    size = {shape[1], shape[2], shape[3]};
  Image image{{size.height, size.width, 3}, {}};
  const std::int64_t pixels = size.height * size.width;
  for (std::int64_t i = 0; i < pixels; ++i) {
    for (std::int64_t c = 0; c < 3; ++c) {
      const std::int64_t from = size.channels >= 3 ? c : 0;  // grey: the same three times
      image.pixels.push_back(bytes[size.planes ? from * pixels + i : i * size.channels + from]);
    }
  }
  return image;
}

}  // namespace

Thumbnail thumbnail_of(const Dataset& data, std::int64_t index, std::int64_t edge) {
  if (data.sample_shape().rank() != 4 || data.format().kind == SampleFormat::Kind::words) return {};
  Image image = rgb_of(data, index);
  const std::int64_t longer = std::max(image.size.height, image.size.width);
  if (longer > edge) {
    const auto scaled = [&](std::int64_t length) {
      return std::max<std::int64_t>(1, length * edge / longer);
    };
    Image small{{scaled(image.size.height), scaled(image.size.width), 3}, {}};
    small.pixels.resize(small.size.count());
    resize(image, {0, 0, image.size.height, image.size.width}, small.size.height, small.size.width,
           small.pixels.data());
    image = std::move(small);
  }
  return {"data:image/png;base64," + base64(encode_png(image)), std::min(longer, edge)};
}

}  // namespace lockstep
