// PNG by libpng's simplified interface.
#include <png.h>

#include "src/base/check.h"
#include "src/data/formats/formats.h"

namespace lockstep {

namespace {

/// libpng's state, which it frees.
struct Png : png_image {
  Png() : png_image{} { version = PNG_IMAGE_VERSION; }
  ~Png() { png_image_free(this); }
  Png& operator=(Png&&) = delete;  ///< neither copied nor moved
};

void check(int good, const Png& png, const EncodedImage& file) {
  if (good == 0 || (png.warning_or_error & PNG_IMAGE_ERROR) != 0)
    fail_image(file.name, png.message);
}

ImageSize read_header(Png& png, const EncodedImage& file) {
  check(png_image_begin_read_from_memory(&png, file.bytes.data(), file.bytes.size()), png, file);
  require_size(file, png.height, png.width);
  return {png.height, png.width, 3};
}

ImageSize png_size(const EncodedImage& file) {
  Png png;
  return read_header(png, file);
}

Image decode_png(const EncodedImage& file) {
  Png png;
  const ImageSize size = read_header(png, file);
  // libpng would mix with white in linear light, and other formats and programs do not.
  const bool transparent = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as most programs write and read 16 bits
  Image image{size, std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  check(png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr), png, file);
  return transparent ? in_front_of_white(image.pixels.data(), size) : image;
}

}  // namespace

ImageReader png_reader() { return {png_size, decode_png}; }

std::vector<std::uint8_t> encode_png(const Image& image) {
  Png png;
  png.format = PNG_FORMAT_RGB;
  png.height = static_cast<png_uint_32>(image.size.height);
  png.width = static_cast<png_uint_32>(image.size.width);
  const auto write = [&](void* to, png_alloc_size_t& size) {
    const int good = png_image_write_to_memory(&png, to, &size, /*convert_to_8_bit=*/0,
                                               image.pixels.data(), 0, nullptr);
    require(good != 0, "cannot make a PNG picture: {}", png.message);
  };
  // The first call only returns the size, the second writes.
  png_alloc_size_t size = 0;
  write(nullptr, size);
  std::vector<std::uint8_t> bytes(size);
  write(bytes.data(), size);
  bytes.resize(size);
  return bytes;
}

}  // namespace lockstep
