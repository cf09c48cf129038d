// Decoders of image files, one for each format. decode.cc chooses among them.
#pragma once

#include <span>
#include <string>

#include "src/data/image/image.h"

namespace lockstep {

/// The file with its name for errors.
struct EncodedImage {
  std::span<const std::uint8_t> bytes;
  const std::string& name;
};

/// How files of a format are read. Without functions: Lockstep was built without their library.
struct ImageReader {
  /// From the header, of the upright image.
  ImageSize (*size)(const EncodedImage& file) = nullptr;
  /// decode_image().
  Image (*decode)(const EncodedImage& file) = nullptr;
  /// decode_part(). Null: the whole image is decoded.
  ImagePart (*part)(const EncodedImage& file, const Box& box, int edge) = nullptr;
};

ImageReader jpeg_reader();
ImageReader png_reader();
ImageReader webp_reader();     ///< the first frame
ImageReader bmp_gif_reader();  ///< BMP, and the first frame of GIF
ImageReader tiff_reader();     ///< the first page
ImageReader heif_reader();     ///< HEIC and AVIF: the primary image

/// Throws DamagedImage.
[[noreturn]] void fail_image(const std::string& name, const std::string& why);
/// Whether an image of this size is decoded.
bool is_allowed(std::int64_t height, std::int64_t width);
/// Throws DamagedImage if an edge is longer than kLargestEdge, or if the image has more than
/// kMostPixels. Every reader calls it after the header, before it allocates pixels.
void require_size(const EncodedImage& file, std::int64_t height, std::int64_t width);
/// RGBA pixels in front of white.
Image in_front_of_white(const std::uint8_t* rgba, const ImageSize& size);
/// Turns and mirrors an image so that its first row is its top. `exif`: its orientation, 1 to 8.
Image upright(Image image, int exif);

}  // namespace lockstep
