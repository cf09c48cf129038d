// WebP by libwebp.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "src/data/formats/formats.h"

namespace lockstep {
namespace {

ImageSize webp_size(const EncodedImage& file) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.bytes.data(), file.bytes.size(), &features) != VP8_STATUS_OK)
    fail_image(file.name, "its WebP header is damaged");
  require_size(file, features.height, features.width);
  return {features.height, features.width, 3};
}

Image decode_webp(const EncodedImage& file) {
  const ImageSize size = webp_size(file);
  const WebPData data{file.bytes.data(), file.bytes.size()};
  // A still image is an animation of one frame.
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(
      WebPAnimDecoderNew(&data, nullptr), WebPAnimDecoderDelete);
  std::uint8_t* rgba = nullptr;
  int time = 0;
  if (decoder == nullptr || WebPAnimDecoderGetNext(decoder.get(), &rgba, &time) == 0)
    fail_image(file.name, "its WebP data are damaged");
  return in_front_of_white(rgba, size);
}

}  // namespace

ImageReader webp_reader() { return {webp_size, decode_webp}; }

}  // namespace lockstep
