// BMP and GIF by stb_image, which is a single header.
#include <memory>

#include "src/data/image/formats.h"

#ifdef LOCKSTEP_STB
#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_BMP
#define STBI_ONLY_GIF
#define STBI_NO_STDIO
#define STBI_MAX_DIMENSIONS 16384
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <stb_image.h>
#pragma GCC diagnostic pop
#endif

namespace lockstep {

#ifdef LOCKSTEP_STB

ImageSize other_size(const EncodedImage& file) {
  int width = 0, height = 0, channels = 0;
  const int bytes = static_cast<int>(file.bytes.size());
  if (stbi_info_from_memory(file.bytes.data(), bytes, &width, &height, &channels) == 0)
    fail_image(file.name, stbi_failure_reason());
  require_size(file, height, width);
  return {height, width, 3};
}

Image decode_other(const EncodedImage& file) {
  other_size(file);
  int width = 0, height = 0, channels = 0;
  const int bytes = static_cast<int>(file.bytes.size());
  const std::unique_ptr<stbi_uc, void (*)(void*)> rgba(
      stbi_load_from_memory(file.bytes.data(), bytes, &width, &height, &channels, 4),
      stbi_image_free);
  if (rgba == nullptr) fail_image(file.name, stbi_failure_reason());
  const std::int64_t pixels = std::int64_t{width} * height;
  return {{height, width, 3}, in_front_of_white(rgba.get(), pixels)};
}

#else

ImageSize other_size(const EncodedImage& file) {
  fail_image(file.name, "Lockstep was built without stb_image");
}
Image decode_other(const EncodedImage& file) { return {other_size(file), {}}; }

#endif

}  // namespace lockstep
