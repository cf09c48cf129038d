// WebP by libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "src/data/image/formats.h"

namespace lockstep {
namespace {

WebPBitstreamFeatures features_of(const EncodedImage& file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.bytes.data(), file.bytes.size(), &features) != VP8_STATUS_OK)
    fail_image(file.name, "its WebP header is damaged");
  require_size(file, features.height, features.width);
  return features;
}

ImageSize webp_size(const EncodedImage& file) {
  const WebPBitstreamFeatures features = features_of(file);
  return {features.height, features.width, 3};
}

Image decode_webp(const EncodedImage& file, int /*least*/) {
  const WebPBitstreamFeatures features = features_of(file);
  const WebPData data{file.bytes.data(), file.bytes.size()};
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> animation(
      features.has_animation != 0 ? WebPAnimDecoderNew(&data, nullptr) : nullptr,
      WebPAnimDecoderDelete);
  std::unique_ptr<std::uint8_t, void (*)(void*)> still(nullptr, WebPFree);
  std::uint8_t* rgba = nullptr;
  int width = 0, height = 0, time = 0;
  if (animation != nullptr) {
    WebPAnimDecoderGetNext(animation.get(), &rgba, &time);  // owns the pixels
  } else if (features.has_animation == 0) {
    still.reset(rgba = WebPDecodeRGBA(data.bytes, data.size, &width, &height));
  }
  if (rgba == nullptr) fail_image(file.name, "its WebP data are damaged");
  const std::int64_t pixels = std::int64_t{features.width} * features.height;
  return {{features.height, features.width, 3}, in_front_of_white(rgba, pixels)};
}

}  // namespace

ImageReader webp_reader() { return {webp_size, decode_webp}; }

}  // namespace lockstep
