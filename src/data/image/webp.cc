// WebP by libwebp.
#ifdef LOCKSTEP_WEBP
#include <webp/decode.h>
#endif

#include <memory>

#include "src/data/image/formats.h"

namespace lockstep {

#ifdef LOCKSTEP_WEBP

ImageSize webp_size(const EncodedImage& file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.bytes.data(), file.bytes.size(), &features) != VP8_STATUS_OK)
    fail_image(file.name, "its WebP header is damaged");
  if (features.has_animation != 0) fail_image(file.name, "it is an animation");
  require_size(file, features.height, features.width);
  return {features.height, features.width, 3};
}

Image decode_webp(const EncodedImage& file) {
  webp_size(file);
  int width = 0, height = 0;
  const std::unique_ptr<std::uint8_t, void (*)(void*)> rgba(
      WebPDecodeRGBA(file.bytes.data(), file.bytes.size(), &width, &height), WebPFree);
  if (rgba == nullptr) fail_image(file.name, "its WebP data are damaged");
  const std::int64_t pixels = std::int64_t{width} * height;
  return {{height, width, 3}, in_front_of_white(rgba.get(), pixels)};
}

#else

ImageSize webp_size(const EncodedImage& file) {
  fail_image(file.name, "Lockstep was built without libwebp");
}
Image decode_webp(const EncodedImage& file) { return {webp_size(file), {}}; }

#endif

}  // namespace lockstep
