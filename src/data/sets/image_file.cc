// PNG by libpng's simplified interface, JPEG by libjpeg (libjpeg-turbo), which reports errors by a
// call that must not return.

#include <sys/stat.h>

#include <cstdio>
// clang-format off
#include <jpeglib.h>
#include <png.h>
// clang-format on

#include <csetjmp>
#include <cstring>

#include "src/base/check.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

constexpr std::int64_t kLargest = 1 << 14;  // pixels along an edge

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

[[noreturn]] void fail_image(const std::filesystem::path& file, const std::string& why) {
  fail("{} is no readable image: {}; move it out of the folder", file.string(), why);
}

void require_size(const std::filesystem::path& file, std::int64_t height, std::int64_t width) {
  if (height > kLargest || width > kLargest)
    fail_image(file, fmt::format("its header promises {}x{} pixels", height, width));
}

ImageStore read_png(const std::filesystem::path& path, std::FILE* file) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ImageStore store;
  const auto check = [&](int good) {
    if (good && (image.warning_or_error & PNG_IMAGE_ERROR) == 0) return;
    const std::string why = image.message;
    png_image_free(&image);
    fail_image(path, why);
  };
  check(png_image_begin_read_from_stdio(&image, file));
  image.format = PNG_FORMAT_RGB;
  store.size = {image.height, image.width, 3};
  if (image.height > kLargest || image.width > kLargest) png_image_free(&image);
  require_size(path, image.height, image.width);
  store.pixels.resize(store.size.count());
  const png_color white{255, 255, 255};  // behind what is transparent
  check(png_image_finish_read(&image, &white, store.pixels.data(), 0, nullptr));
  return store;
}

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

/// A damaged file is an error, where libjpeg would fill in grey and go on.
void warn(j_common_ptr info, int level) {
  if (level < 0) leave(info);
}

/// False with the reason in `errors`. Nothing here has a destructor that a jump could skip.
bool decode(std::FILE* file, JpegErrors& errors, ImageStore& store, bool& too_large) {
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors.base);
  errors.base.error_exit = leave;
  errors.base.emit_message = warn;
  jpeg_create_decompress(&info);
  if (setjmp(errors.out) != 0) {
    jpeg_destroy_decompress(&info);
    return false;
  }
  jpeg_stdio_src(&info, file);
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  store.size = {info.output_height, info.output_width, 3};
  too_large = info.output_height > kLargest || info.output_width > kLargest;
  if (!too_large) {
    store.pixels.resize(store.size.count());
    while (info.output_scanline < info.output_height) {
      JSAMPROW row =
          store.pixels.data() + std::size_t{3} * info.output_width * info.output_scanline;
      jpeg_read_scanlines(&info, &row, 1);
    }
    jpeg_finish_decompress(&info);
  }
  jpeg_destroy_decompress(&info);
  return true;
}

ImageStore read_jpeg(const std::filesystem::path& path, std::FILE* file) {
  ImageStore store;
  JpegErrors errors{};
  bool too_large = false;
  if (!decode(file, errors, store, too_large)) fail_image(path, errors.message);
  if (too_large) require_size(path, store.size.height, store.size.width);
  return store;
}

}  // namespace

ImageStore read_image_file(const std::filesystem::path& path) {
  struct stat there {};
  require(::stat(path.c_str(), &there) != 0 || S_ISREG(there.st_mode),
          "{} is not a regular file; move it out of the folder", path.string());
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  require(file != nullptr, "cannot open {}: {}; check its permissions", path.string(),
          std::strerror(errno));
  unsigned char begin[8] = {};
  const std::size_t got = std::fread(begin, 1, sizeof begin, file.get());
  std::rewind(file.get());
  if (got == sizeof begin && png_sig_cmp(begin, 0, sizeof begin) == 0)
    return read_png(path, file.get());
  if (got > 2 && begin[0] == 0xff && begin[1] == 0xd8) return read_jpeg(path, file.get());
  fail_image(path, "it is neither PNG nor JPEG");
}

}  // namespace lockstep
