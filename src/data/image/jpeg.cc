// JPEG by libjpeg-turbo, which reports errors by a call that must not return.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>

#include "src/data/image/formats.h"

namespace lockstep {
namespace {

struct JpegErrors {
  jpeg_error_mgr base;
  std::jmp_buf out;
  char message[JMSG_LENGTH_MAX];
};

void leave(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->message);
  std::longjmp(errors->out, 1);
}

/// A damaged file is an error. libjpeg would fill it with grey. Many cameras write bytes between
/// markers that no reader needs, and these lose nothing.
void warn(j_common_ptr info, int level) {
  if (level < 0 && info->err->msg_code != JWRN_EXTRANEOUS_DATA) leave(info);
}

/// The orientation 1 to 8 in the bytes of a marker APP1; 1 if it has none. Source: CIPA DC-008,
/// "Exchangeable image file format", 4.6.
int orientation_in(std::span<const std::uint8_t> marker) {
  constexpr std::size_t kTiff = 6;  // behind "Exif\0\0"
  if (marker.size() < kTiff + 8 || std::memcmp(marker.data(), "Exif\0\0", kTiff) != 0) return 1;
  const std::span<const std::uint8_t> tiff = marker.subspan(kTiff);
  const bool little = tiff[0] == 'I';
  const auto number = [&](std::size_t at, int bytes) -> std::size_t {
    std::size_t value = 0;
    if (at > tiff.size() || tiff.size() - at < static_cast<std::size_t>(bytes)) return 0;
    for (int i = 0; i < bytes; ++i)
      value |= std::size_t{tiff[at + i]} << 8 * (little ? i : bytes - 1 - i);
    return value;
  };
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    constexpr std::size_t kOrientation = 0x0112;
    if (number(entry, 2) != kOrientation) continue;
    const auto value = static_cast<int>(number(entry + 8, 2));
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

/// Turns and mirrors the image so that its first row is its top.
Image upright(Image image, int orientation) {
  if (orientation == 1) return image;
  const bool swap = orientation >= 5,
             from_below =
                 orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
             from_right =
                 orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const std::int64_t height = image.size.height, width = image.size.width;
  Image result{{swap ? width : height, swap ? height : width, 3}, {}};
  result.pixels.resize(image.pixels.size());
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < result.size.height; ++y) {
    for (std::int64_t x = 0; x < result.size.width; ++x, to += 3) {
      std::int64_t row = swap ? x : y, column = swap ? y : x;
      if (from_below) row = height - 1 - row;
      if (from_right) column = width - 1 - column;
      std::copy_n(&image.pixels[3 * (row * width + column)], 3, to);
    }
  }
  return result;
}

/// Adobe's files store the complement of the inks.
std::vector<std::uint8_t> rgb_of_cmyk(const std::vector<std::uint8_t>& cmyk, bool complement) {
  std::vector<std::uint8_t> rgb(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < cmyk.size() / 4; ++i) {
    const auto light = [&](std::size_t c) {
      return complement ? cmyk[4 * i + c] : 255 - cmyk[4 * i + c];
    };
    for (std::size_t c = 0; c < 3; ++c)
      rgb[3 * i + c] = static_cast<std::uint8_t>((light(c) * light(3) + 127) / 255);
  }
  return rgb;
}

struct Decoded {
  Image image;
  bool cmyk = false, complement = false, too_large = false;
  int orientation = 1;
};

/// A denominator of 1, 2, 4 or 8 that leaves the shorter side `least` pixels.
unsigned denominator_for(unsigned shorter, int least) {
  unsigned denominator = 1;
  while (least > 0 && denominator < 8 &&
         shorter / (2 * denominator) >= static_cast<unsigned>(least))
    denominator *= 2;
  return denominator;
}

enum class Pass : std::uint8_t { header, pixels };

/// False with the reason in `errors`. No local object here has a destructor that a jump could skip.
bool decode(const EncodedImage& file, Pass pass, int least, JpegErrors& errors, Decoded& decoded) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = warn;
  jpeg_create_decompress(&info);
  if (setjmp(errors.out) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_mem_src(&info, file.bytes.data(), file.bytes.size());
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&info, TRUE);
  decoded.image.size = {info.image_height, info.image_width, 3};
  decoded.too_large = info.image_height > kLargestEdge || info.image_width > kLargestEdge;
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    if (decoded.orientation == 1)
      decoded.orientation = orientation_in({marker->data, marker->data_length});
  }
  if (!decoded.too_large && pass == Pass::pixels) {
    decoded.cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    decoded.complement = info.saw_Adobe_marker == TRUE;
    info.out_color_space = decoded.cmyk ? JCS_CMYK : JCS_RGB;
    info.scale_denom = denominator_for(std::min(info.image_height, info.image_width), least);
    jpeg_start_decompress(&info);
    decoded.image.size = {info.output_height, info.output_width, 3};
    const std::size_t row = std::size_t{info.output_width} * (decoded.cmyk ? 4 : 3);
    decoded.image.pixels.resize(info.output_height * row);
    while (info.output_scanline < info.output_height) {
      JSAMPROW to = decoded.image.pixels.data() + row * info.output_scanline;
      jpeg_read_scanlines(&info, &to, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

Decoded decode(const EncodedImage& file, Pass pass, int least) {
  JpegErrors errors{};
  Decoded decoded;
  if (!decode(file, pass, least, errors, decoded)) fail_image(file.name, errors.message);
  if (decoded.too_large) require_size(file, decoded.image.size.height, decoded.image.size.width);
  return decoded;
}

}  // namespace

ImageSize jpeg_size(const EncodedImage& file) {
  const Decoded decoded = decode(file, Pass::header, 0);
  ImageSize size = decoded.image.size;
  if (decoded.orientation >= 5) std::swap(size.height, size.width);
  return size;
}

Image decode_jpeg(const EncodedImage& file, int least) {
  Decoded decoded = decode(file, Pass::pixels, least);
  if (decoded.cmyk) decoded.image.pixels = rgb_of_cmyk(decoded.image.pixels, decoded.complement);
  return upright(std::move(decoded.image), decoded.orientation);
}

}  // namespace lockstep
