#include "src/data/image/thumbnail.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "src/data/image/formats.h"
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

/// The pixels of stored bytes, or of what a network sees.
class Pixels {
 public:
  Pixels(const Dataset& data, std::int64_t index) : format_(data.format()), size_(format_.size) {
    if (format_.kind != SampleFormat::Kind::values) {
      buffer_.resize(format_.bytes());
      const std::uint8_t* const from = data.stored(index, buffer_.data());
      if (from != buffer_.data()) std::copy_n(from, buffer_.size(), buffer_.begin());
      return;
    }
    const Shape shape = data.sample_shape();
    size_ = {shape[1], shape[2], shape[3]};
    std::vector<float> seen(shape.count());
    data.read(index, nullptr, seen.data(), Type::f32);
    // Values of files are standardised pixels; others have a range of their own.
    const auto [low, high] = std::minmax_element(seen.begin(), seen.end());
    const float least = *low, range = std::max(*high - *low, 1e-6f);
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const std::size_t c = i % size_.channels;
      const float pixel =
          format_.files && c < format_.normalisation.mean.size()
              ? seen[i] * format_.normalisation.deviation[c] + format_.normalisation.mean[c]
              : (seen[i] - least) / range * 255;
      buffer_.push_back(static_cast<std::uint8_t>(std::clamp(std::round(pixel), 0.0f, 255.0f)));
    }
  }

  Image rgb() const {
    Image image{{size_.height, size_.width, 3}, {}};
    const std::int64_t pixels = size_.height * size_.width;
    for (std::int64_t i = 0; i < pixels; ++i) {
      for (std::int64_t c = 0; c < 3; ++c) {
        const std::int64_t from = size_.channels >= 3 ? c : 0;  // grey: the same three times
        image.pixels.push_back(
            buffer_[size_.planes ? from * pixels + i : i * size_.channels + from]);
      }
    }
    return image;
  }

 private:
  SampleFormat format_;
  ImageSize size_;
  std::vector<std::uint8_t> buffer_;
};

}  // namespace

Thumbnail thumbnail_of(const Dataset& data, std::int64_t index, std::int64_t edge) {
  if (data.sample_shape().rank() != 4 || data.format().kind == SampleFormat::Kind::words) return {};
  Image image = Pixels(data, index).rgb();
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
