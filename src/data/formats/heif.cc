// HEIC and AVIF by libheif, which turns images upright.
#include <libheif/heif.h>

#include <memory>

#include "src/data/formats/formats.h"

namespace lockstep {
namespace {

/// An object of libheif, and the function that frees it.
template <class T, class From = T>
using Owned = std::unique_ptr<T, void (*)(From*)>;

struct Heif {
  Owned<heif_context> context{heif_context_alloc(), heif_context_free};
  Owned<heif_image_handle, const heif_image_handle> image{nullptr, heif_image_handle_release};
  ImageSize size;
};

void check(const heif_error& error, const EncodedImage& file) {
  if (error.code != heif_error_Ok) fail_image(file.name, error.message);
}

Heif open_heif(const EncodedImage& file) {
  Heif heif;
  heif_context* const context = heif.context.get();
  heif_context_set_max_decoding_threads(context, 0);  // the loader has threads
  check(heif_context_read_from_memory_without_copy(context, file.bytes.data(), file.bytes.size(),
                                                   nullptr),
        file);
  heif_image_handle* image = nullptr;
  check(heif_context_get_primary_image_handle(context, &image), file);
  heif.image.reset(image);
  heif.size = {heif_image_handle_get_height(image), heif_image_handle_get_width(image), 3};
  require_size(file, heif.size.height, heif.size.width);
  const bool av1 = file.bytes[8] == 'a', hevc = file.bytes[8] == 'h';  // the brand behind "ftyp"
  if (av1 && heif_have_decoder_for_format(heif_compression_AV1) == 0)
    fail_image(file.name, "libheif lacks its plug-in libheif-plugin-dav1d");
  if (hevc && heif_have_decoder_for_format(heif_compression_HEVC) == 0)
    fail_image(file.name, "libheif lacks its plug-in libheif-plugin-libde265");
  return heif;
}

ImageSize heif_size(const EncodedImage& file) { return open_heif(file).size; }

Image decode_heif(const EncodedImage& file) {
  const Heif heif = open_heif(file);
  const Owned<heif_decoding_options> options(heif_decoding_options_alloc(),
                                             heif_decoding_options_free);
  options->convert_hdr_to_8bit = 1;
  heif_image* decoded = nullptr;
  check(heif_decode_image(heif.image.get(), &decoded, heif_colorspace_RGB,
                          heif_chroma_interleaved_RGBA, options.get()),
        file);
  const Owned<heif_image, const heif_image> image(decoded, heif_image_release);
  constexpr heif_channel kAll = heif_channel_interleaved;
  int stride = 0;
  const std::uint8_t* row = heif_image_get_plane_readonly(decoded, kAll, &stride);
  if (row == nullptr || heif_image_get_height(decoded, kAll) != heif.size.height ||
      heif_image_get_width(decoded, kAll) != heif.size.width)
    fail_image(file.name, "its data are damaged");
  std::vector<std::uint8_t> rgba;
  for (std::int64_t y = 0; y < heif.size.height; ++y, row += stride)
    rgba.insert(rgba.end(), row, row + 4 * heif.size.width);
  return in_front_of_white(rgba.data(), heif.size);
}

}  // namespace

ImageReader heif_reader() { return {heif_size, decode_heif}; }

}  // namespace lockstep
