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

/// Throws DamagedImage.
[[noreturn]] void fail_image(const std::string& name, const std::string& why);
/// Whether an image of this size is decoded.
bool is_allowed(std::int64_t height, std::int64_t width);
/// Throws DamagedImage if an edge is longer than kLargestEdge, or if the image has more than
/// kMostPixels. Every reader calls it after the header, before it allocates pixels.
void require_size(const EncodedImage& file, std::int64_t height, std::int64_t width);
/// RGB of `pixels` RGBA pixels in front of white.
std::vector<std::uint8_t> in_front_of_white(const std::uint8_t* rgba, std::int64_t pixels);

// The sizes come from the headers, and those of JPEG are of the upright image.

ImageSize jpeg_size(const EncodedImage& file);
Image decode_jpeg(const EncodedImage& file, int least);
/// decode_part().
ImagePart decode_jpeg_part(const EncodedImage& file, const Box& box, int edge);
ImageSize png_size(const EncodedImage& file);
Image decode_png(const EncodedImage& file);
/// The bytes of a PNG file. Throws Error.
std::vector<std::uint8_t> encode_png(const Image& image);
ImageSize webp_size(const EncodedImage& file);
Image decode_webp(const EncodedImage& file);
/// BMP, and the first frame of GIF.
ImageSize other_size(const EncodedImage& file);
Image decode_other(const EncodedImage& file);

}  // namespace lockstep
