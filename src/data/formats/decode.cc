#include <algorithm>
#include <string_view>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/formats/formats.h"

namespace lockstep {

// A build without a library has no reader of its formats.
#ifndef LOCKSTEP_WEBP
ImageReader webp_reader() { return {}; }
#endif
#ifndef LOCKSTEP_TIFF
ImageReader tiff_reader() { return {}; }
#endif
#ifndef LOCKSTEP_HEIF
ImageReader heif_reader() { return {}; }
#endif
#ifndef LOCKSTEP_BMP_GIF
ImageReader bmp_gif_reader() { return {}; }
#endif

namespace {

/// Files that begin with `begin`, in which '?' stands for any byte.
struct Format {
  std::string_view begin;
  const char* name;
  ImageReader reader = {};
  const char* library = "";  ///< whose absence from the build leaves `reader` empty

  bool matches(std::span<const std::uint8_t> file) const {
    const auto same = [](char wanted, std::uint8_t byte) {
      return wanted == '?' || static_cast<std::uint8_t>(wanted) == byte;
    };
    return file.size() >= begin.size() &&
           std::equal(begin.begin(), begin.end(), file.begin(), same);
  }
};

/// The first row that matches counts. Rows without a reader say what a file is instead of an image.
const Format& format_of(const EncodedImage& file) {
  // The bytes decide and not the name, because files often have the ending of another format.
  static const Format kFormats[]{
      {"\xff\xd8\xff", "a JPEG file", jpeg_reader()},
      {"\x89PNG\r\n\x1a\n", "a PNG file", png_reader()},
      {"RIFF????WEBP", "a WebP file", webp_reader(), "libwebp"},
      {"GIF8", "a GIF file", bmp_gif_reader(), "stb_image"},
      {"BM", "a BMP file", bmp_gif_reader(), "stb_image"},
      {"II*?", "a TIFF file", tiff_reader(), "libtiff"},
      {"MM?*", "a TIFF file", tiff_reader(), "libtiff"},
      {"II+?", "a TIFF file", tiff_reader(), "libtiff"},
      {"MM?+", "a TIFF file", tiff_reader(), "libtiff"},
      {"????ftyphe", "a HEIC file", heif_reader(), "libheif"},
      {"????ftypm?f1", "a HEIF file", heif_reader(), "libheif"},
      {"????ftypavi", "an AVIF file", heif_reader(), "libheif"},
      {"????ftyp", "a video"},
      {"????JXL ", "a JPEG XL file"},
      {"\xff\x0a", "a JPEG XL file"},
      {"????jP  ", "a JPEG 2000 file"},
      {"8BPS", "a Photoshop file"},
      {"%PDF", "a PDF file"},
      {"<svg", "an SVG file"},
      {"<?xml", "an XML or SVG file"},
      {"<!DOCTYPE", "a web page"},
      {"<html", "a web page"},
      {"PK\x03\x04", "an archive"},
      {"version https://git-lfs", "a pointer of Git LFS, whose file git lfs pull downloads"}};
  if (file.bytes.empty()) fail_image(file.name, "it is empty");
  for (const Format& format : kFormats) {
    if (!format.matches(file.bytes)) continue;
    if (format.reader.decode != nullptr) return format;
    const bool optional = *format.library != '\0';
    fail_image(file.name,
               fmt::format("it is {}{}{}", format.name,
                           optional ? ", and Lockstep was built without " : "", format.library));
  }
  fail_image(file.name, "it is no JPEG, PNG, WebP, BMP, GIF, TIFF, HEIC or AVIF file");
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

Image in_front_of_white(const std::uint8_t* rgba, const ImageSize& size) {
  Image image{{size.height, size.width, 3}, {}};
  image.pixels.resize(image.size.count());
  std::uint8_t* to = image.pixels.data();
  for (std::int64_t i = 0; i < size.height * size.width; ++i, rgba += 4) {
    for (int c = 0; c < 3; ++c) {
      const int value = rgba[c] * rgba[3] + 255 * (255 - rgba[3]);
      *to++ = static_cast<std::uint8_t>((value + 127) / 255);
    }
  }
  return image;
}

ImageSize image_size(std::span<const std::uint8_t> file, const std::string& name) {
  const EncodedImage encoded{file, name};
  return format_of(encoded).reader.size(encoded);
}

Image decode_image(std::span<const std::uint8_t> file, const std::string& name) {
  const EncodedImage encoded{file, name};
  return format_of(encoded).reader.decode(encoded);
}

ImagePart decode_part(std::span<const std::uint8_t> file, const std::string& name, const Box& box,
                      int edge) {
  const EncodedImage encoded{file, name};
  const ImageReader& reader = format_of(encoded).reader;
  if (reader.part != nullptr) return reader.part(encoded, box, edge);
  return {reader.decode(encoded), box};
}

}  // namespace lockstep
