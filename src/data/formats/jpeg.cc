// JPEG by libjpeg-turbo, which reports errors by a call that must not return.
#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstring>
#include <utility>

#include "src/data/formats/formats.h"

namespace lockstep {
namespace {

// libjpeg is C, and no exception may pass through its frames. So leave() jumps back into decode(),
// which frees libjpeg's memory and returns false. A jump skips destructors. So all objects that own
// memory belong to its callers.
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
  // number() is 0 beyond the end, so damaged offsets find no entry.
  const std::size_t directory = number(4, 4), entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (entry + 12 > tiff.size()) break;
    constexpr std::size_t kOrientation = 0x0112;
    if (number(entry, 2) != kOrientation) continue;
    const int value = number(entry + 8, 2);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

/// How stored pixels become upright ones: the pixel at (y, x) of the upright image lies at (x, y)
/// if `swap`, counted from below or from the right.
struct Orientation {
  bool swap, from_below, from_right;

  explicit Orientation(int exif)
      : swap(exif >= 5),
        from_below(exif == 3 || exif == 4 || exif == 6 || exif == 7),
        from_right(exif == 2 || exif == 3 || exif == 7 || exif == 8) {}

  ImageSize size(const ImageSize& other) const {
    return swap ? ImageSize{other.width, other.height, 3} : other;
  }
  Box mirrored(Box box, const ImageSize& stored) const {
    if (from_below) box.top = stored.height - box.top - box.height;
    if (from_right) box.left = stored.width - box.left - box.width;
    return box;
  }
  static Box swapped(const Box& box) { return {box.left, box.top, box.width, box.height}; }
  /// The place of a part of the upright image in the stored one, and the reverse.
  Box stored(const Box& box, const ImageSize& of) const {
    return mirrored(swap ? swapped(box) : box, of);
  }
  Box upright(const Box& box, const ImageSize& of) const {
    const Box placed = mirrored(box, of);
    return swap ? swapped(placed) : placed;
  }
};

/// Files store the complement of the inks, as Adobe does. Other readers assume it of all files,
/// also of those without Adobe's marker.
std::vector<std::uint8_t> rgb_of_cmyk(const std::vector<std::uint8_t>& cmyk) {
  std::vector<std::uint8_t> rgb(cmyk.size() / 4 * 3);
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    const std::size_t pixel = i / 3 * 4;
    rgb[i] = static_cast<std::uint8_t>((cmyk[pixel + i % 3] * cmyk[pixel + 3] + 127) / 255);
  }
  return rgb;
}

/// The parts of a file that are decoded.
struct Wanted {
  bool pixels = false;        ///< else only the header
  int least = 0;              ///< pixels that the shorter side keeps; 0: all
  const Box* part = nullptr;  ///< of the upright image; null: all of it
};

struct Decoded {
  Image image;
  bool cmyk = false, too_large = false;
  int exif = 1;          ///< its orientation, 1 to 8
  ImageSize whole = {};  ///< of the stored image at the decoded scale
  Box region = {};       ///< that `image` is, in `whole`
};

/// `box` of an image of size `from` in the same image of size `to`.
Box scaled(const Box& box, const ImageSize& from, const ImageSize& to) {
  if (from == to) return box;
  const auto place = [](std::int64_t at, std::int64_t of, std::int64_t now) {
    return (at * now + of / 2) / of;
  };
  Box result;
  result.top = place(box.top, from.height, to.height);
  result.left = place(box.left, from.width, to.width);
  result.height = std::clamp<std::int64_t>(
      place(box.top + box.height, from.height, to.height) - result.top, 1, to.height - result.top);
  result.width = std::clamp<std::int64_t>(
      place(box.left + box.width, from.width, to.width) - result.left, 1, to.width - result.left);
  return result;
}

/// A denominator of 1, 2, 4 or 8 that leaves the shorter side `least` pixels.
unsigned denominator_for(unsigned shorter, int least) {
  unsigned denominator = 1;
  while (least > 0 && denominator < 8 &&
         shorter / (2 * denominator) >= static_cast<unsigned>(least))
    denominator *= 2;
  return denominator;
}

/// The region around the wanted part: a block more on each side, because chroma is interpolated
/// across the edges of blocks.
Box region_of(const jpeg_decompress_struct& info, const Wanted& wanted, const Decoded& decoded) {
  const ImageSize stored{info.image_height, info.image_width, 3}, &whole = decoded.whole;
  if (wanted.part == nullptr) return {0, 0, whole.height, whole.width};
  const Orientation orientation(decoded.exif);
  const Box part = orientation.stored(
      scaled(*wanted.part, orientation.size(stored), orientation.size(whole)), whole);
  const std::int64_t block_height = info.max_v_samp_factor * info.min_DCT_scaled_size,
                     block_width = info.max_h_samp_factor * info.min_DCT_scaled_size;
  const std::int64_t top = std::max<std::int64_t>(part.top - block_height, 0),
                     left = std::max<std::int64_t>(part.left - block_width, 0);
  return {top, left, std::min(part.top + part.height + block_height, whole.height) - top,
          std::min(part.left + part.width + block_width, whole.width) - left};
}

void read_pixels(jpeg_decompress_struct& info, const Wanted& wanted, Decoded& decoded) {
  decoded.cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
  info.out_color_space = decoded.cmyk ? JCS_CMYK : JCS_RGB;
  info.scale_denom = denominator_for(std::min(info.image_height, info.image_width), wanted.least);
  jpeg_start_decompress(&info);
  decoded.whole = {info.output_height, info.output_width, 3};
  Box& region = decoded.region;
  region = region_of(info, wanted, decoded);
  // libjpeg moves the left edge to a block and returns the region that it decodes.
  if (region.width < decoded.whole.width) {
    auto left = static_cast<JDIMENSION>(region.left), width = static_cast<JDIMENSION>(region.width);
    jpeg_crop_scanline(&info, &left, &width);
    region.left = left;
    region.width = width;
  }
  decoded.image.size = {region.height, region.width, 3};
  const std::size_t row = region.width * (decoded.cmyk ? 4 : 3);
  decoded.image.pixels.resize(region.height * row);
  if (region.top > 0) jpeg_skip_scanlines(&info, static_cast<JDIMENSION>(region.top));
  JSAMPROW to = decoded.image.pixels.data();
  for (std::int64_t i = 0; i < region.height; ++i, to += row) jpeg_read_scanlines(&info, &to, 1);
  // It is an error to finish before the last line. jpeg_destroy_decompress() frees everything in
  // either case.
  if (info.output_scanline == info.output_height) jpeg_finish_decompress(&info);
}

/// False with the reason in `errors`. No local object here has a destructor that a jump could skip.
bool decode(const EncodedImage& file, const Wanted& wanted, JpegErrors& errors, Decoded& decoded) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = warn;
  if (setjmp(errors.out) != 0) {  // jpeg_create_decompress() fails with another libjpeg
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, file.bytes.data(), file.bytes.size());
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&info, TRUE);
  decoded.image.size = {info.image_height, info.image_width, 3};
  // require_size() throws, which would leave libjpeg's memory behind. So the caller calls it.
  decoded.too_large = !is_allowed(info.image_height, info.image_width);
  for (auto* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    if (decoded.exif == 1) decoded.exif = orientation_in({marker->data, marker->data_length});
  }
  if (!decoded.too_large && wanted.pixels) read_pixels(info, wanted, decoded);
  jpeg_destroy_decompress(&info);
  return true;
}

Decoded decode(const EncodedImage& file, const Wanted& wanted) {
  JpegErrors errors{};
  Decoded decoded;
  if (!decode(file, wanted, errors, decoded)) fail_image(file.name, errors.message);
  if (decoded.too_large) require_size(file, decoded.image.size.height, decoded.image.size.width);
  if (decoded.cmyk) decoded.image.pixels = rgb_of_cmyk(decoded.image.pixels);
  return decoded;
}

ImageSize jpeg_size(const EncodedImage& file) {
  const Decoded decoded = decode(file, {});
  return Orientation(decoded.exif).size(decoded.image.size);
}

Image decode_jpeg(const EncodedImage& file) {
  Decoded decoded = decode(file, {.pixels = true});
  return upright(std::move(decoded.image), decoded.exif);
}

ImagePart decode_jpeg_part(const EncodedImage& file, const Box& box, int edge) {
  const ImageSize size = jpeg_size(file);
  // The smallest shorter edge from which the part can still be cut without enlarging it.
  const double scale = static_cast<double>(edge) / std::min(box.height, box.width);
  const int least = static_cast<int>(std::ceil(scale * std::min(size.height, size.width)));
  // The image is only a region of the file now. So the part is scaled as the whole image was, then
  // moved by the region's corner.
  Decoded decoded = decode(file, {.pixels = true, .least = least, .part = &box});
  const Orientation orientation(decoded.exif);
  Box part = scaled(box, size, orientation.size(decoded.whole));
  const Box region = orientation.upright(decoded.region, decoded.whole);
  part.top -= region.top;
  part.left -= region.left;
  return {upright(std::move(decoded.image), decoded.exif), part};
}

}  // namespace

Image upright(Image image, int exif) {
  if (exif == 1) return image;
  const Orientation orientation(exif);
  const std::int64_t height = image.size.height, width = image.size.width;
  Image result{orientation.size(image.size), {}};
  result.pixels.resize(image.pixels.size());
  std::uint8_t* to = result.pixels.data();
  for (std::int64_t y = 0; y < result.size.height; ++y) {
    for (std::int64_t x = 0; x < result.size.width; ++x, to += 3) {
      std::int64_t row = orientation.swap ? x : y, column = orientation.swap ? y : x;
      if (orientation.from_below) row = height - 1 - row;
      if (orientation.from_right) column = width - 1 - column;
      std::copy_n(&image.pixels[3 * (row * width + column)], 3, to);
    }
  }
  return result;
}

ImageReader jpeg_reader() { return {jpeg_size, decode_jpeg, decode_jpeg_part}; }

}  // namespace lockstep
