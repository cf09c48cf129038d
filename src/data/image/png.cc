// PNG by libpng's simplified interface.
#include <png.h>

#include "src/base/check.h"
#include "src/data/image/formats.h"

namespace lockstep {

namespace {

/// A file whose header is read.
class PngReader {
 public:
  explicit PngReader(const EncodedImage& file) : file_(file) {
    png.version = PNG_IMAGE_VERSION;
    check(png_image_begin_read_from_memory(&png, file.bytes.data(), file.bytes.size()));
    try {
      require_size(file, png.height, png.width);
    } catch (...) {
      png_image_free(&png);
      throw;
    }
  }
  ~PngReader() { png_image_free(&png); }
  PngReader& operator=(PngReader&&) = delete;  ///< neither copied nor moved

  void check(int good) {  // libpng has freed its memory if it is not good
    if (good == 0 || (png.warning_or_error & PNG_IMAGE_ERROR) != 0)
      fail_image(file_.name, png.message);
  }
  ImageSize size() const { return {png.height, png.width, 3}; }

  png_image png{};

 private:
  const EncodedImage& file_;
};

ImageSize png_size(const EncodedImage& file) { return PngReader(file).size(); }

Image decode_png(const EncodedImage& file, int /*least*/) {
  PngReader reader(file);
  png_image& png = reader.png;
  // libpng would mix with white in linear light, and other formats and programs do not.
  const bool transparent = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  png.format = transparent ? PNG_FORMAT_RGBA : PNG_FORMAT_RGB;
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // as most programs write and read 16 bits
  Image image{reader.size(), std::vector<std::uint8_t>(PNG_IMAGE_SIZE(png))};
  reader.check(png_image_finish_read(&png, nullptr, image.pixels.data(), 0, nullptr));
  if (transparent)
    image.pixels = in_front_of_white(image.pixels.data(), image.size.height * image.size.width);
  return image;
}

}  // namespace

ImageReader png_reader() { return {png_size, decode_png}; }

std::vector<std::uint8_t> encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.format = PNG_FORMAT_RGB;
  png.height = static_cast<png_uint_32>(image.size.height);
  png.width = static_cast<png_uint_32>(image.size.width);
  const auto write = [&](void* to, png_alloc_size_t& size) {
    const int good = png_image_write_to_memory(&png, to, &size, /*convert_to_8_bit=*/0,
                                               image.pixels.data(), 0, nullptr);
    require(good != 0, "cannot make a PNG picture: {}", png.message);
  };
  png_alloc_size_t size = 0;
  write(nullptr, size);
  std::vector<std::uint8_t> bytes(size);
  write(bytes.data(), size);
  bytes.resize(size);
  return bytes;
}

}  // namespace lockstep
