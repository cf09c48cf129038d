#include <string_view>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/image/formats.h"

namespace lockstep {
namespace {

enum class Format : std::uint8_t { none, jpeg, png, webp, other };

Format format_of(std::span<const std::uint8_t> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("\xff\xd8\xff")) return Format::jpeg;
  if (text.starts_with("\x89PNG\r\n\x1a\n")) return Format::png;
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return Format::webp;
  if (text.starts_with("GIF8") || text.starts_with("BM")) return Format::other;
  return Format::none;
}

Format require_format(const EncodedImage& file) {
  const Format format = format_of(file.bytes);
  if (format == Format::none) {
    fail_image(file.name,
               file.bytes.empty() ? "it is empty" : "it is no JPEG, PNG, WebP, BMP or GIF file");
  }
  return format;
}

}  // namespace

DamagedImage::DamagedImage(const std::string& file, const std::string& why)
    : DamagedSample(one_line(fmt::format("{} is no readable image: {}", file, why)),
                    "Use another file, or move it out of the folder."),
      why_(why) {}

void fail_image(const std::string& name, const std::string& why) { throw DamagedImage(name, why); }

bool is_allowed(std::int64_t height, std::int64_t width) {
  return height >= 1 && width >= 1 && height <= kLargestEdge && width <= kLargestEdge &&
         height * width <= kMostPixels;
}

void require_size(const EncodedImage& file, std::int64_t height, std::int64_t width) {
  if (is_allowed(height, width)) return;
  fail_image(file.name, fmt::format("its size is {}x{} pixels, and the limits are {} along an edge "
                                    "and {} million in all",
                                    width, height, kLargestEdge, kMostPixels / 1'000'000));
}

std::vector<std::uint8_t> in_front_of_white(const std::uint8_t* rgba, std::int64_t pixels) {
  std::vector<std::uint8_t> rgb(3 * pixels);
  for (std::int64_t i = 0; i < pixels; ++i) {
    const int alpha = rgba[4 * i + 3];
    for (int c = 0; c < 3; ++c) {
      const int value = rgba[4 * i + c] * alpha + 255 * (255 - alpha);
      rgb[3 * i + c] = static_cast<std::uint8_t>((value + 127) / 255);
    }
  }
  return rgb;
}

bool is_image(std::span<const std::uint8_t> file) { return format_of(file) != Format::none; }

ImageSize image_size(std::span<const std::uint8_t> file, const std::string& name) {
  const EncodedImage encoded{file, name};
  switch (require_format(encoded)) {
    case Format::jpeg:
      return jpeg_size(encoded);
    case Format::png:
      return png_size(encoded);
    case Format::webp:
      return webp_size(encoded);
    default:
      return other_size(encoded);
  }
}

Image decode_image(std::span<const std::uint8_t> file, const std::string& name, int least) {
  const EncodedImage encoded{file, name};
  switch (require_format(encoded)) {
    case Format::jpeg:
      return decode_jpeg(encoded, least);
    case Format::png:
      return decode_png(encoded);
    case Format::webp:
      return decode_webp(encoded);
    default:
      return decode_other(encoded);
  }
}

ImagePart decode_part(std::span<const std::uint8_t> file, const std::string& name, const Box& box,
                      int edge) {
  const EncodedImage encoded{file, name};
  if (require_format(encoded) == Format::jpeg) return decode_jpeg_part(encoded, box, edge);
  return {decode_image(file, name), box};
}

}  // namespace lockstep
