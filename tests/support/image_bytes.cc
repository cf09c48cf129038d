#include "tests/support/image_bytes.h"

#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>

#include "src/data/image/image.h"

namespace lockstep {
namespace {

int channels_of(Colours colours) {
  return colours == Colours::grey ? 1 : colours == Colours::rgb ? 3 : 4;
}

}  // namespace

Bytes png_of(const Bytes& pixels, int width, int height, Colours colours) {
  const std::map<Colours, png_uint_32> formats{{Colours::grey, PNG_FORMAT_GRAY},
                                               {Colours::rgb, PNG_FORMAT_RGB},
                                               {Colours::rgba, PNG_FORMAT_RGBA}};
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = formats.at(colours);
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&png, nullptr, &size, 0, pixels.data(), 0, nullptr));
  Bytes file(size);
  EXPECT_TRUE(png_image_write_to_memory(&png, file.data(), &size, 0, pixels.data(), 0, nullptr));
  file.resize(size);
  return file;
}

Bytes jpeg_of(const Bytes& pixels, int width, int height, const JpegKind& kind) {
  const std::map<Colours, J_COLOR_SPACE> spaces{
      {Colours::grey, JCS_GRAYSCALE}, {Colours::rgb, JCS_RGB}, {Colours::cmyk, JCS_CMYK}};
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = channels_of(kind.colours);
  info.in_color_space = spaces.at(kind.colours);
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  for (int c = 0; c < info.num_components; ++c)
    info.comp_info[c].h_samp_factor = info.comp_info[c].v_samp_factor = 1;
  info.comp_info[0].h_samp_factor = kind.sampling >> 4;
  info.comp_info[0].v_samp_factor = kind.sampling & 15;
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  if (!kind.marker.empty()) {
    jpeg_write_marker(&info, JPEG_APP0 + 1, kind.marker.data(),
                      static_cast<unsigned>(kind.marker.size()));
  }
  for (int y = 0; y < height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(&pixels[std::size_t(y) * width * info.input_components]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes file(bytes, bytes + count);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

bool can_read(const Bytes& file) {
  try {
    image_size(file, "a");
  } catch (const DamagedImage& damage) {
    return damage.why().find("built without") == std::string::npos;
  }
  return true;
}

void put_image(const std::filesystem::path& file, const Bytes& bytes) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
}

}  // namespace lockstep
