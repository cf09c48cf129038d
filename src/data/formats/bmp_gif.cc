// BMP and GIF by stb_image, which is a single header.
#include <cstdint>
#include <memory>
#include <span>

#include "src/data/formats/formats.h"

// Only these two formats are compiled in. The names stay in this file, so another copy of stb_image
// in the program does no harm.
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 16384
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>
#pragma GCC diagnostic pop

namespace lockstep {
namespace {

using Bytes = std::span<const std::uint8_t>;

/// Little-endian. Bytes after the end count as 0.
std::int64_t number_at(Bytes file, std::size_t at, int bytes) {
  std::int64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= at + i < file.size() ? std::int64_t{file[at + i]} << 8 * i : 0;
  return value;
}

/// Whether the pixels of a BMP file are complete. They are not compressed, because stb_image reads
/// no others.
bool is_whole_bmp(Bytes file, const ImageSize& size) {
  constexpr std::int64_t kOldHeader = 12;  // its bytes; it has shorter numbers
  const std::int64_t begin = number_at(file, 10, 4);
  const std::int64_t bits = number_at(file, number_at(file, 14, 4) == kOldHeader ? 24 : 28, 2);
  const std::int64_t row = size.width * bits, stride = (row + 31) / 32 * 4;
  return begin + (size.height - 1) * stride + (row + 7) / 8 <= std::ssize(file);
}

/// Whether the masks in the header of a BMP file declare alpha.
bool declares_alpha(Bytes file) {
  constexpr std::int64_t kLongHeader = 56, kMasks = 3;
  return number_at(file, 14, 4) >= kLongHeader && number_at(file, 30, 4) == kMasks &&
         number_at(file, 66, 4) != 0;
}

/// Whether the first frame of a GIF file is complete: its last block of data is empty.
bool has_whole_frame(Bytes file) {
  constexpr std::size_t kHeader = 13, kFrameHeader = 10;
  const auto colours = [&](std::size_t flags) -> std::size_t {  // bytes of the table of colours
    const std::int64_t value = number_at(file, flags, 1);
    return (value & 0x80) != 0 ? std::size_t{6} << (value & 7) : 0;
  };
  // A GIF is a row of blocks: ',' begins a frame, and '!' an extension with a label. The data of
  // both are pieces, each after a byte with its length, until a piece of length 0.
  std::size_t at = kHeader + colours(10);
  while (at < file.size()) {
    const bool frame = file[at] == ',';
    at += frame ? kFrameHeader + colours(at + kFrameHeader - 1) + 1 : 2;
    while (number_at(file, at, 1) > 0) at += 1 + number_at(file, at, 1);
    ++at;
    if (frame) return at <= file.size();
  }
  return false;
}

ImageSize other_size(const EncodedImage& file) {
  int width = 0, height = 0, channels = 0;
  const int bytes = file.bytes.size();
  if (stbi_info_from_memory(file.bytes.data(), bytes, &width, &height, &channels) == 0)
    fail_image(file.name, stbi_failure_reason());
  require_size(file, height, width);
  return {height, width, 3};
}

Image decode_other(const EncodedImage& file) {
  const ImageSize size = other_size(file);
  // stb_image would replace missing pixels by others.
  if (file.bytes[0] == 'B' ? !is_whole_bmp(file.bytes, size) : !has_whole_frame(file.bytes))
    fail_image(file.name, "it is truncated");
  int width = 0, height = 0, channels = 0;
  const int bytes = file.bytes.size();
  const std::unique_ptr<stbi_uc, void (*)(void*)> rgba(
      stbi_load_from_memory(file.bytes.data(), bytes, &width, &height, &channels, 4),
      stbi_image_free);
  if (rgba == nullptr) fail_image(file.name, stbi_failure_reason());
  if (file.bytes[0] == 'B' && !declares_alpha(file.bytes))  // stb_image takes it for alpha
    for (std::int64_t i = 0; i < size.height * size.width; ++i) rgba.get()[4 * i + 3] = 255;
  return in_front_of_white(rgba.get(), {height, width, 3});
}

}  // namespace

ImageReader bmp_gif_reader() { return {other_size, decode_other}; }

}  // namespace lockstep
