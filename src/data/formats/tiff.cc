// TIFF by libtiff.
#include <sys/mman.h>
#include <tiffio.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "src/data/formats/formats.h"

namespace lockstep {
namespace {

/// The meaning of the fourth byte of libtiff's pixels.
enum class Alpha : std::uint8_t {
  none,        ///< libtiff returns any fourth band as alpha. Only a declared one is.
  multiplied,  ///< the colours are products with it
  separate,    ///< libtiff multiplies RGB by a separate alpha, but not grey side by side with it
};

struct Tiff {
  std::unique_ptr<TIFF, void (*)(TIFF*)> file{nullptr, TIFFClose};
  std::uint32_t height = 0, width = 0;
  std::uint16_t orientation = 1;
  Alpha alpha = Alpha::none;
};

/// Throws DamagedImage if libtiff cannot turn the image into RGB.
Alpha alpha_of(const EncodedImage& file, TIFF* opened) {
  char why[1024] = "its TIFF header is damaged";
  TIFFRGBAImage image;
  if (TIFFRGBAImageOK(opened, why) == 0 || TIFFRGBAImageBegin(&image, opened, 1, why) == 0)
    fail_image(file.name, why);
  TIFFRGBAImageEnd(&image);
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(opened, TIFFTAG_EXTRASAMPLES, &count, &kinds);
  if (count == 0 || kinds[0] == EXTRASAMPLE_UNSPECIFIED) return Alpha::none;
  if (image.photometric > PHOTOMETRIC_MINISBLACK || image.isContig == 0) return Alpha::multiplied;
  if (image.bitspersample != 8)
    fail_image(file.name, "libtiff does not read grey with alpha of 16 bits");
  return kinds[0] == EXTRASAMPLE_UNASSALPHA ? Alpha::separate : Alpha::multiplied;
}

/// libtiff reads a descriptor, of a file in memory. The parts of an image may lie anywhere in the
/// file, so this looks whether all are there.
Tiff open_tiff(const EncodedImage& file) {
  constexpr tmsize_t kMost = tmsize_t{1} << 30;  // bytes of one buffer of libtiff
  const auto silent = [](TIFF*, void*, const char*, const char*, va_list) { return 1; };
  // A file in memory needs no callbacks for reads, as TIFFClientOpen() would. No folder contains
  // its name.
  const int memory = ::memfd_create("image.tif", MFD_CLOEXEC);
  if (memory < 0 ||
      ::write(memory, file.bytes.data(), file.bytes.size()) != std::ssize(file.bytes)) {
    ::close(memory);
    throw std::bad_alloc();
  }
  ::lseek(memory, 0, SEEK_SET);
  TIFFOpenOptions* const options = TIFFOpenOptionsAlloc();
  TIFFOpenOptionsSetMaxSingleMemAlloc(options, kMost);
  TIFFOpenOptionsSetErrorHandlerExtR(options, silent, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options, silent, nullptr);
  Tiff tiff;
  TIFF* const opened = TIFFFdOpenExt(memory, "", "r", options);
  tiff.file.reset(opened);
  TIFFOpenOptionsFree(options);
  if (opened == nullptr) {
    ::close(memory);
    fail_image(file.name, "its TIFF header is damaged");
  }
  TIFFGetField(opened, TIFFTAG_IMAGELENGTH, &tiff.height);
  TIFFGetField(opened, TIFFTAG_IMAGEWIDTH, &tiff.width);
  require_size(file, tiff.height, tiff.width);
  TIFFGetFieldDefaulted(opened, TIFFTAG_ORIENTATION, &tiff.orientation);
  if (tiff.orientation < 1 || tiff.orientation > 8) tiff.orientation = 1;
  const std::uint32_t parts =
      TIFFIsTiled(opened) != 0 ? TIFFNumberOfTiles(opened) : TIFFNumberOfStrips(opened);
  for (std::uint32_t i = 0; i < parts; ++i) {
    const std::uint64_t begin = TIFFGetStrileOffset(opened, i), size = file.bytes.size();
    if (begin > size || TIFFGetStrileByteCount(opened, i) > size - begin)
      fail_image(file.name, "it is truncated");
  }
  tiff.alpha = alpha_of(file, opened);
  return tiff;
}

ImageSize tiff_size(const EncodedImage& file) {
  const Tiff tiff = open_tiff(file);
  if (tiff.orientation >= 5) return {tiff.width, tiff.height, 3};
  return {tiff.height, tiff.width, 3};
}

Image decode_tiff(const EncodedImage& file) {
  const Tiff tiff = open_tiff(file);
  std::vector<std::uint32_t> pixels(std::size_t{tiff.height} * tiff.width);
  // Asked for the file's own orientation, libtiff moves no pixel. It could only mirror images, and
  // upright() turns them too.
  if (TIFFReadRGBAImageOriented(tiff.file.get(), tiff.width, tiff.height, pixels.data(),
                                tiff.orientation, /*stop_on_error=*/1) == 0)
    fail_image(file.name, "its TIFF data are damaged");
  Image image{{tiff.height, tiff.width, 3}, {}};
  image.pixels.reserve(3 * pixels.size());
  // White shows through: products with alpha only need the rest of white added.
  for (const std::uint32_t pixel : pixels) {
    const std::uint32_t share = tiff.alpha == Alpha::none ? 255 : TIFFGetA(pixel);
    for (std::uint32_t value : {TIFFGetR(pixel), TIFFGetG(pixel), TIFFGetB(pixel)}) {
      if (tiff.alpha == Alpha::separate) value = (value * share + 127) / 255;
      image.pixels.push_back(static_cast<std::uint8_t>(std::min(value + 255 - share, 255U)));
    }
  }
  return upright(std::move(image), tiff.orientation);
}

}  // namespace

ImageReader tiff_reader() { return {tiff_size, decode_tiff}; }

}  // namespace lockstep
