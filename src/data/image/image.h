// Image files of any size: decoding, and resizing of a part to the size that a network sees.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "src/base/error.h"
#include "src/base/random.h"
#include "src/data/dataset.h"

namespace lockstep {

/// 8-bit RGB, the channels of a pixel side by side.
struct Image {
  ImageSize size;
  std::vector<std::uint8_t> pixels;
};

/// Largest number of pixels along an edge, and of a whole image. Cameras have up to 108 million
/// pixels, which need 0.4 GB when they are decoded. A small file that claims more is no photo.
inline constexpr std::int64_t kLargestEdge = 1 << 14, kMostPixels = 1 << 27;

/// An image file that cannot be decoded.
class DamagedImage : public DamagedSample {
 public:
  DamagedImage(const std::string& file, const std::string& why);
  const std::string& why() const { return why_; }

 private:
  std::string why_;
};

/// A file that is no regular one, does not exist or must not be read, which waiting does not mend.
class MissingImage : public Error {
 public:
  using Error::Error;
};

/// Decodes a whole file to RGB, upright by its EXIF orientation. Grey and CMYK become RGB. White
/// shows through transparent parts. GIF: the first frame. `name` is for errors. Throws DamagedImage
/// if the file is damaged, too large or in another format. Thread-safe.
Image decode_image(std::span<const std::uint8_t> file, const std::string& name);

/// The size of decode_image(); it reads only the header. Throws DamagedImage as that does.
ImageSize image_size(std::span<const std::uint8_t> file, const std::string& name);

/// The bytes of a PNG file. Throws Error.
std::vector<std::uint8_t> encode_png(const Image& image);

/// Part of an image, in pixels.
struct Box {
  std::int64_t top = 0, left = 0, height = 0, width = 0;

  bool operator==(const Box&) const = default;
};

/// An image, and the part of it that is meant.
struct ImagePart {
  Image image;
  Box box;
};

/// The part `box`, in pixels of image_size(). A JPEG file is decoded only around the part. With
/// `edge` > 0, for a network that sees its shorter edge as `edge` pixels, it is decoded at a half,
/// a quarter or an eighth of its size if that leaves enough pixels; 0: in full. The part's pixels
/// are those of the whole image at the same scale. Damage behind the part may go unnoticed.
ImagePart decode_part(std::span<const std::uint8_t> file, const std::string& name, const Box& box,
                      int edge);

/// The bytes of an image file. Throws Error if `path` is no regular file or cannot be read, or if
/// it is longer than 1 GiB.
std::vector<std::uint8_t> read_image_bytes(const std::filesystem::path& path);
/// decode_image() of a file.
Image read_image(const std::filesystem::path& path);

/// The part for evaluation: the largest part in the middle with the proportions of `height` x
/// `width`, and of it `share` (0 to 1] of each edge.
Box centre_box(const ImageSize& image, std::int64_t height, std::int64_t width, double share);

/// A random part for training. Ten times it draws a share of the image's area from `least_area` to
/// 1, and a ratio of width to height from 3/4 to 4/3 (log-uniform), in this order, until the part
/// fits. Otherwise it returns the largest part in the middle with an allowed ratio.
/// Source: Szegedy et al., "Going deeper with convolutions", CVPR 2015, 6.
Box random_box(const ImageSize& image, double least_area, Random& random);

/// Mirrors the image left to right, or turns it over.
void flip(Image& image, bool mirrored, bool inverted);

/// The brightness of a pixel, by the weights of ITU-R BT.601.
inline std::uint8_t grey_of(const std::uint8_t* rgb) {
  return static_cast<std::uint8_t>((299 * rgb[0] + 587 * rgb[1] + 114 * rgb[2] + 500) / 1000);
}

/// Resizes the part `box` of `image` to height x width and writes it to `out`, with 3 bytes for
/// each pixel. Bilinear interpolation with antialiasing: the triangle is as wide as the distance of
/// two output pixels if the part shrinks. Values are rounded to the nearest integer.
void resize(const Image& image, const Box& box, std::int64_t height, std::int64_t width,
            std::uint8_t* out);

}  // namespace lockstep
