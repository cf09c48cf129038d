// Decoding of image files in every supported format, and resizing of their parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "src/data/image/image.h"
#include "src/data/image/image_index.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes bytes_of(std::string_view hexadecimal) {
  Bytes bytes;
  for (std::size_t i = 0; i < hexadecimal.size(); i += 2) {
    const std::string pair(hexadecimal.substr(i, 2));
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(pair, nullptr, 16)));
  }
  return bytes;
}

// 3 x 2 pixels, written by Pillow 12: red, green, blue; (10, 20, 30), (200, 100, 50), white.
const Bytes kPixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 200, 100, 50, 255, 255, 255};
constexpr std::string_view kBmp =
    "424d4e0000000000000036000000280000000300000002000000010018000000000018000000c40e0000c40e0000"
    "00000000000000001e140a3264c8ffffff0000000000ff00ff00ff0000000000";
constexpr std::string_view kGif =
    "47494638376103000200820000ffffff00ff00c864320a141eff00000000ff0000000000002c000000000300020000"
    "0809000904283040008080003b";
constexpr std::string_view kWebp =
    "5249464642000000574542505650384c360000002f024000002f40906db341dcebfe32d32093b6c95fff76666d64d2"
    "36ad87fdf3afb2f31f68e491acfb06040294b1e2816d22fa1fe305";

constexpr std::string_view kPng16 =  // without a note of its gamma
    "89504e470d0a1a0a0000000d494844520000000300000002100200000042862d0e0000001e4944415478da63f8ff9f"
    "010c90682e2e111139b9132752528c8cfe830100e2ac0f29406331920000000049454e44ae426082";

constexpr std::string_view kAnimation =  // WebP of two frames
    "52494646b200000057454250565038580a00000002000000020000010000414e494d06000000000000000000414e"
    "4d4652000000000000000000020000010000000000025650384c390000002f024000002f40906d3389791df0aed3"
    "2093b6c95d43733f6d64d236d443eff957334b9dff40039b5ddf2550c836021cbad7e0482ea2ff31bc00414e4d46"
    "2c000000000000000000020000010000000000005650384c140000002f02400000075081540820000a9afec78888"
    "fe07";
constexpr std::string_view kTiff =
    "49492a001a000000803fc01038141014140f320c8327fc3602000a00000103000100000003000000010103000100"
    "00000200000002010300030000009800000003010300010000000500000006010300010000000200000011010400"
    "01000000080000001501030001000000030000001601030001000000020000001701040001000000110000001c01"
    "0300010000000100000000000000080008000800";
// 32 x 16 pixels in quarters, red, green; blue, black; written by libheif. kTurned: by 90 degrees.
constexpr std::string_view kHeic =
    "0000001c6674797068656963000000006d696631686569636d6961660000017c6d65746100000000000000216864"
    "6c720000000000000000706963740000000000000000000000000000000022696c6f630000000044400001000100"
    "00000001a0000100000000000000f60000002369696e6600000000000100000015696e6665020000000001000068"
    "766331000000000e7069746d000000000001000000fc69707270000000dc6970636f000000756876634301037000"
    "00009000000000001ef000fcfdf8f800000f03600001001840010c01ffff03700000030090000003000003001eba"
    "0240610001002942010103700000030090000003000003001ea020810596eaae9ae6e021a0c08000000c80000003"
    "008462000100064401c173c18900000013636f6c726e636c780001000d0006800000001469737065000000000000"
    "00400000004000000028636c617000000020000000010000001000000001ffffffe000000002ffffffd000000002"
    "000000107069786900000000030808080000001869706d6100000000000000010001058102030584000000fe6d64"
    "6174000000f22801af06321e2b86b0f174282e5edf1077fffda2fe87d668c97f2b74be16be47daf07ffd8caf2629"
    "9c22cfd0699822533d0dfe0ea97bc1bffe973fff8d002a5fc4beadbff041b1b049d86df0b7eeba2daa587d89ec02"
    "dd74eee0420b4095e39a974a5de9e2e9f4b73b93b36b299d5208919d5ffc33fa17ba08a98292121d0e1b039fed02"
    "39f3cd7400a876bc1162cd8c705dd7ea7364905b0375b6928e5ab138511e0e42cb649b41b80f51ba06773de2217e"
    "be95c5526afa47d990ffb0400129ef9c038becd50c7962c92ef2a5f3d5ebfc4592cd6be95c5526afa47d868082c7"
    "1c4dfc4c1c06c71f28e21a4eb5f61b46c930";
constexpr std::string_view kTurned =
    "0000001c6674797068656963000000006d696631686569636d696166000001c76d65746100000000000000216864"
    "6c720000000000000000706963740000000000000000000000000000000034696c6f630000000044400002000100"
    "00000001eb000100000000000000f600020000000002e1000100000000000000240000003869696e660000000000"
    "0200000015696e66650200000000010000687663310000000015696e666502000001000200004578696600000000"
    "0e7069746d0000000000010000010669707270000000e56970636f00000075687663430103700000009000000000"
    "001ef000fcfdf8f800000f03600001001840010c01ffff03700000030090000003000003001eba02406100010029"
    "42010103700000030090000003000003001ea020810596eaae9ae6e021a0c08000000c8000000300846200010006"
    "4401c173c18900000013636f6c726e636c780001000d000680000000146973706500000000000000400000004000"
    "000028636c617000000020000000010000001000000001ffffffe000000002ffffffd00000000200000010706978"
    "6900000000030808080000000969726f74030000001969706d610000000000000001000106810203058486000000"
    "1a69726566000000000000000e63647363000200010001000001226d646174000000f22801af06321e2b86b0f174"
    "282e5edf1077fffda2fe87d668c97f2b74be16be47daf07ffd8caf26299c22cfd0699822533d0dfe0ea97bc1bffe"
    "973fff8d002a5fc4beadbff041b1b049d86df0b7eeba2daa587d89ec02dd74eee0420b4095e39a974a5de9e2e9f4"
    "b73b93b36b299d5208919d5ffc33fa17ba08a98292121d0e1b039fed0239f3cd7400a876bc1162cd8c705dd7ea73"
    "64905b0375b6928e5ab138511e0e42cb649b41b80f51ba06773de2217ebe95c5526afa47d990ffb0400129ef9c03"
    "8becd50c7962c92ef2a5f3d5ebfc4592cd6be95c5526afa47d868082c71c4dfc4c1c06c71f28e21a4eb5f61b46c9"
    "30000000064578696600004d4d002a00000008000101120003000000010006000000000000";
constexpr std::string_view kAvif =
    "00000020667479706176696600000000617669666d6966316d6961664d413142000000eb6d657461000000000000"
    "002168646c72000000000000000070696374000000000000000000000000000000000e7069746d00000000000100"
    "00001e696c6f63000000004400000100010000000100000113000000350000002869696e66000000000001000000"
    "1a696e6665020000000001000061763031436f6c6f72000000006a697072700000004b6970636f00000014697370"
    "65000000000000002000000010000000107069786900000000030808080000000c6176314381000c000000001363"
    "6f6c726e636c780001000d0006800000001769706d610000000000000001000104010283040000003d6d64617412"
    "000a091810ffed1010d0684032264481fdfdaa4020820f900020ece97a682fb54648c76c9f72c187c2905e19598e"
    "52e8d94046d8";

Bytes png_of(int format, const Bytes& pixels, int width, int height) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = static_cast<png_uint_32>(format);
  png_alloc_size_t size = 0;
  EXPECT_TRUE(png_image_write_to_memory(&png, nullptr, &size, 0, pixels.data(), 0, nullptr));
  Bytes file(size);
  EXPECT_TRUE(png_image_write_to_memory(&png, file.data(), &size, 0, pixels.data(), 0, nullptr));
  file.resize(size);
  return file;
}

/// Without compression, 8-bit RGB.
Bytes tiff_of(const Bytes& pixels, std::uint32_t width, std::uint32_t height, int orientation = 1) {
  constexpr std::uint32_t kEntries = 9, kBits = 8 + 2 + 12 * kEntries + 4, kPixelsBegin = kBits + 6;
  Bytes file{'I', 'I', 42, 0, 8, 0, 0, 0, kEntries, 0};
  const auto add = [&](std::uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) file.push_back(static_cast<std::uint8_t>(number >> 8 * i));
  };
  const auto entry = [&](std::uint32_t tag, std::uint32_t count, std::uint32_t value) {
    add(tag, 2);
    add(count == 1 ? 4 : 3, 2);
    add(count, 4);
    add(value, 4);
  };
  entry(256, 1, width);
  entry(257, 1, height);
  entry(258, 3, kBits);
  entry(259, 1, 1);
  entry(262, 1, 2);
  entry(273, 1, kPixelsBegin);
  entry(274, 1, static_cast<std::uint32_t>(orientation));
  entry(277, 1, 3);
  entry(279, 1, static_cast<std::uint32_t>(pixels.size()));
  add(0, 4);
  for (int c = 0; c < 3; ++c) add(8, 2);
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

struct JpegKind {
  J_COLOR_SPACE colours = JCS_RGB;
  int channels = 3;
  bool progressive = false;
  Bytes marker = {};    ///< contents of APP1
  int sampling = 0x11;  ///< of brightness: horizontal, vertical
};

Bytes jpeg_of(const Bytes& pixels, int width, int height, const JpegKind& kind = {}) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long count = 0;
  jpeg_mem_dest(&info, &bytes, &count);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = kind.channels;
  info.in_color_space = kind.colours;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 100, TRUE);
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
    JSAMPROW row = const_cast<JSAMPROW>(&pixels[std::size_t(y) * width * kind.channels]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  Bytes file(bytes, bytes + count);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

/// Each quarter has a colour of its own: red, green; blue, black.
Bytes quarters(int side) {
  Bytes pixels;
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const int quarter = 2 * (y >= side / 2) + (x >= side / 2);
      for (int c = 0; c < 3; ++c) pixels.push_back(c == quarter ? 255 : 0);
    }
  }
  return pixels;
}

std::vector<int> pixel(const Image& image, std::int64_t y, std::int64_t x) {
  const std::uint8_t* at = &image.pixels[3 * (y * image.size.width + x)];
  return {at[0], at[1], at[2]};
}

void expect_near(const Image& image, std::int64_t y, std::int64_t x, const std::vector<int>& rgb) {
  for (std::size_t c = 0; c < 3; ++c)
    EXPECT_NEAR(pixel(image, y, x)[c], rgb[c], 3) << y << " " << x << " " << c;
}

TEST(ImageFiles, LosslessFormatsKeepEveryPixel) {
  for (const Bytes& file :
       {bytes_of(kBmp), bytes_of(kGif), bytes_of(kWebp), bytes_of(kPng16), bytes_of(kAnimation),
        bytes_of(kTiff), tiff_of(kPixels, 3, 2), png_of(PNG_FORMAT_RGB, kPixels, 3, 2)}) {
    const Image image = decode_image(file, "a");
    EXPECT_EQ(image.size, (ImageSize{2, 3, 3}));
    EXPECT_EQ(image.pixels, kPixels);
  }
}

TEST(ImageFiles, GreyBecomesRgbAndWhiteShowsThrough) {
  EXPECT_EQ(decode_image(png_of(PNG_FORMAT_GRAY, {7, 200}, 2, 1), "a").pixels,
            (Bytes{7, 7, 7, 200, 200, 200}));
  const Bytes rgba{10, 20, 30, 255, 10, 20, 30, 0};
  EXPECT_EQ(decode_image(png_of(PNG_FORMAT_RGBA, rgba, 2, 1), "a").pixels,
            (Bytes{10, 20, 30, 255, 255, 255}));
  const Bytes grey(64, 90);
  const Image jpeg = decode_image(jpeg_of(grey, 8, 8, {JCS_GRAYSCALE, 1}), "a");
  EXPECT_EQ(jpeg.size.channels, 3);
  expect_near(jpeg, 4, 4, {90, 90, 90});
}

TEST(ImageFiles, JpegOfAllKinds) {
  for (const bool progressive : {false, true}) {
    const Image image =
        decode_image(jpeg_of(quarters(16), 16, 16, {.progressive = progressive}), "a");
    EXPECT_EQ(image.size, (ImageSize{16, 16, 3}));
    expect_near(image, 2, 2, {255, 0, 0});
    expect_near(image, 2, 13, {0, 255, 0});
    expect_near(image, 13, 2, {0, 0, 255});
    expect_near(image, 13, 13, {0, 0, 0});
  }
  Bytes inks;  // as Adobe stores them: 255 is no ink
  for (int i = 0; i < 64; ++i) inks.insert(inks.end(), {200, 100, 50, 204});
  expect_near(decode_image(jpeg_of(inks, 8, 8, {JCS_CMYK, 4}), "a"), 3, 3, {160, 80, 40});
}

TEST(ImageFiles, ExifTurnsJpegUpright) {
  // The colours of quarters() when the file is shown: first row, then second.
  const std::vector<int> red{255, 0, 0}, green{0, 255, 0}, blue{0, 0, 255}, black{0, 0, 0};
  const std::vector<std::vector<std::vector<int>>> shown{
      {red, green, blue, black}, {green, red, black, blue}, {black, blue, green, red},
      {blue, black, red, green}, {red, blue, green, black}, {blue, red, black, green},
      {black, green, blue, red}, {green, black, red, blue}};
  for (const bool little : {false, true}) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      Bytes marker =
          little ? bytes_of("45786966000049492a0008000000010012010300010000000000000000000000")
                 : bytes_of("4578696600004d4d002a00000008000101120003000000010000000000000000");
      marker[little ? 24 : 25] = static_cast<std::uint8_t>(orientation);
      const Image image = decode_image(jpeg_of(quarters(16), 16, 16, {.marker = marker}), "a");
      for (int quarter = 0; quarter < 4; ++quarter) {
        SCOPED_TRACE(orientation);
        expect_near(image, quarter / 2 ? 13 : 2, quarter % 2 ? 13 : 2,
                    shown[orientation - 1][quarter]);
      }
    }
  }
  const Bytes wide(3 * 8 * 24, 60);
  Bytes marker = bytes_of("4578696600004d4d002a0000000800010112000300000001000600000000");
  EXPECT_EQ(decode_image(jpeg_of(wide, 24, 8, {.marker = marker}), "a").size,
            (ImageSize{24, 8, 3}));
  marker.resize(20);  // cut off within its entry
  EXPECT_EQ(decode_image(jpeg_of(wide, 24, 8, {.marker = marker}), "a").size,
            (ImageSize{8, 24, 3}));
}

TEST(ImageFiles, TiffAndHeicAreUpright) {
  // The quarters of the upright image, from the first stored one on: red 0, green 1, blue 2,
  // black 3.
  const std::vector<std::vector<int>> upright{{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0},
                                              {2, 3, 0, 1}, {0, 2, 1, 3}, {2, 0, 3, 1},
                                              {3, 1, 2, 0}, {1, 3, 0, 2}};
  const auto expect_quarters = [](const Bytes& file, const std::vector<int>& wanted) {
    const Image image = decode_image(file, "a");
    const std::int64_t height = image.size.height, width = image.size.width;
    EXPECT_EQ(image_size(file, "a"), image.size);
    for (int i = 0; i < 4; ++i) {
      std::vector<int> rgb(3);
      if (wanted[i] < 3) rgb[wanted[i]] = 255;
      expect_near(image, (1 + 2 * (i / 2)) * height / 4, (1 + 2 * (i % 2)) * width / 4, rgb);
    }
  };
  for (int orientation = 1; orientation <= 8; ++orientation)
    expect_quarters(tiff_of(quarters(8), 8, 8, orientation), upright[orientation - 1]);
  expect_quarters(tiff_of(quarters(8), 8, 8, 77), upright[0]);
  expect_quarters(bytes_of(kHeic), upright[0]);
  expect_quarters(bytes_of(kTurned), upright[5]);
  expect_quarters(bytes_of(kAvif), upright[0]);
  EXPECT_EQ(decode_image(bytes_of(kTurned), "a").size, (ImageSize{32, 16, 3}));
}

TEST(ImageFiles, JpegIsDecodedNoSmallerThanNeeded) {
  const Bytes file = jpeg_of(quarters(64), 64, 64);
  const auto side = [&](int least) { return decode_image(file, "a", least).size.width; };
  EXPECT_EQ(side(0), 64);
  EXPECT_EQ(side(33), 64);
  EXPECT_EQ(side(32), 32);
  EXPECT_EQ(side(16), 16);
  EXPECT_EQ(side(1), 8);
  expect_near(decode_image(file, "a", 16), 3, 12, {0, 255, 0});
}

TEST(ImageFiles, PartsOfJpegHaveThePixelsOfTheWhole) {
  constexpr int kWidth = 203, kHeight = 151;
  Bytes pixels;
  Random noise(1, Purpose::generate, 0, 0);
  for (int i = 0; i < kWidth * kHeight * 3; ++i)
    pixels.push_back(static_cast<std::uint8_t>(noise.below(256)));
  Random random(2, Purpose::generate, 0, 0);
  for (const int sampling : {0x11, 0x21, 0x12, 0x22, 0x41}) {
    for (const int orientation : {1, 6, 7, 3, 8}) {
      Bytes marker = bytes_of("4578696600004d4d002a0000000800010112000300000001000000000000");
      marker[25] = static_cast<std::uint8_t>(orientation);
      const Bytes file =
          jpeg_of(pixels, kWidth, kHeight,
                  {.progressive = orientation == 3, .marker = marker, .sampling = sampling});
      const ImageSize size = image_size(file, "a");
      for (int i = 0; i < 6; ++i) {
        const Box box = random_box(size, {.least_area = 0.02}, random);
        for (const int edge : {0, 8, 40, 200}) {
          const ImagePart part = decode_part(file, "a", box, edge);
          const int least = static_cast<int>(
              std::ceil(double{1} * edge / static_cast<double>(std::min(box.height, box.width)) *
                        static_cast<double>(std::min(size.height, size.width))));
          const Image whole = decode_image(file, "a", least);
          Bytes seen(192), wanted(192);
          resize(part.image, part.box, 8, 8, seen.data());
          Box same = box;
          const auto at = [&](std::int64_t place, std::int64_t of, std::int64_t now) {
            return (place * now + of / 2) / of;
          };
          if (!(whole.size == size)) {
            same.top = at(box.top, size.height, whole.size.height);
            same.left = at(box.left, size.width, whole.size.width);
            same.height = part.box.height;
            same.width = part.box.width;
          }
          resize(whole, same, 8, 8, wanted.data());
          ASSERT_EQ(seen, wanted) << sampling << " " << orientation << " " << edge;
        }
      }
    }
  }
}

// 12,000 x 12,000 pixels, which need 0.4 GB, in files of a few bytes.
TEST(ImageFiles, OfTooManyPixelsAreRefusedBeforeTheyAreDecoded) {
  constexpr std::uint32_t kSide = 12000;
  const auto write = [](Bytes& file, std::size_t at, std::uint32_t value, int bytes, bool big) {
    for (int i = 0; i < bytes; ++i)
      file[at + i] = static_cast<std::uint8_t>(value >> 8 * (big ? bytes - 1 - i : i));
  };
  Bytes bmp = bytes_of(kBmp), gif = bytes_of(kGif), webp = bytes_of(kWebp),
        png = png_of(PNG_FORMAT_RGB, kPixels, 3, 2), jpeg = jpeg_of(quarters(16), 16, 16);
  for (const std::size_t place : {18, 22}) write(bmp, place, kSide, 4, false);
  for (const std::size_t place : {6, 8}) write(gif, place, kSide, 2, false);
  write(webp, 21, (kSide - 1) | (kSide - 1) << 14, 4, false);
  for (const std::size_t place : {16, 20}) write(png, place, kSide, 4, true);
  write(png, 29, static_cast<std::uint32_t>(crc32(0, &png[12], 17)), 4, true);
  const std::uint8_t frame[]{0xff, 0xc0};
  const auto found = std::search(jpeg.begin(), jpeg.end(), std::begin(frame), std::end(frame));
  for (const std::size_t place : {5, 7}) write(jpeg, found - jpeg.begin() + place, kSide, 2, true);
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  for (const Bytes& file : {bmp, gif, webp, png, jpeg}) {
    for (const std::string& error : {error_of([&] { image_size(file, "cat/x"); }),
                                     error_of([&] { decode_image(file, "cat/x"); }), error_of([&] {
                                       decode_part(file, "cat/x", {0, 0, 9, 9}, 0);
                                     })})
      EXPECT_TRUE(mentions(error, {"cat/x", "12000x12000", "134 million"}));
  }
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 100 << 10) << "KiB";
}

TEST(ImageFiles, DamagedFilesAreNamed) {
  std::vector<Bytes> files{bytes_of(kBmp),
                           bytes_of(kGif),
                           bytes_of(kWebp),
                           bytes_of(kAnimation),
                           bytes_of(kTiff),
                           bytes_of(kHeic),
                           bytes_of(kAvif),
                           tiff_of(kPixels, 3, 2),
                           png_of(PNG_FORMAT_RGB, kPixels, 3, 2),
                           jpeg_of(quarters(16), 16, 16)};
  for (const Bytes& whole : files) {
    for (const std::size_t kept :
         {std::size_t{3}, std::size_t{14}, whole.size() / 2, whole.size() - 14}) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      EXPECT_THAT(error_of([&] { decode_image(part, "cat/x.jpg"); }),
                  testing::HasSubstr("cat/x.jpg"));
    }
  }
  EXPECT_THAT(error_of([] { decode_image({}, "cat/x"); }), testing::HasSubstr("empty"));
  Bytes huge = bytes_of(kBmp);
  huge[20] = 1;  // 65,539 pixels wide
  EXPECT_THAT(error_of([&] { decode_image(huge, "cat/x"); }), testing::HasSubstr("cat/x"));
  for (const std::uint32_t width : {16385u, 70000u, 0xffffffffu, 0u}) {
    const Bytes wide = tiff_of(kPixels, width, 2);
    EXPECT_THAT(error_of([&] { decode_image(wide, "cat/x"); }), testing::HasSubstr("cat/x"));
  }
}

TEST(ImageFiles, TruncatedOnesAreFoundByTheHeaders) {
  const TemporaryDirectory folder;
  const std::filesystem::path file = folder / "x.jpg";
  const auto check = [&](const Bytes& bytes, bool whole) {
    put(file, std::string(bytes.begin(), bytes.end()));
    check_image(file, whole);
  };
  for (const Bytes& whole : {bytes_of(kWebp), bytes_of(kAnimation), bytes_of(kTiff),
                             tiff_of(quarters(64), 64, 64), bytes_of(kHeic), bytes_of(kAvif)}) {
    EXPECT_NO_THROW(check(whole, false));
    EXPECT_NO_THROW(check(whole, true));
    for (const int missing : {1, 12, 30}) {
      const Bytes cut(whole.begin(), whole.end() - missing);
      EXPECT_THAT(error_of([&] { check(cut, false); }), testing::HasSubstr("x.jpg")) << missing;
    }
  }
  Bytes damaged = bytes_of(kHeic);
  for (std::size_t i = damaged.size() - 60; i < damaged.size(); ++i) damaged[i] ^= 0x55;
  EXPECT_NO_THROW(check(damaged, false)) << "the headers alone, because decoding is slow";
}

TEST(ImageFiles, OtherKindsAreNamed) {
  for (const auto& [begin, kind] :
       std::vector<std::pair<std::string, std::string>>{{"%PDF-1.7", "PDF"},
                                                        {"8BPS\1", "Photoshop"},
                                                        {"<svg xmlns", "SVG"},
                                                        {"<!DOCTYPE html>", "web page"},
                                                        {"version https://git-lfs.x", "Git LFS"},
                                                        {"0000ftypmp42", "video"},
                                                        {"0000JXL x", "JPEG XL"},
                                                        {"PK\3\4", "archive"},
                                                        {"hello", "no JPEG"}}) {
    const Bytes file(begin.begin(), begin.end());
    EXPECT_THAT(error_of([&] { decode_image(file, "a.jpg"); }), testing::HasSubstr(kind));
    EXPECT_THAT(error_of([&] { image_size(file, "a.jpg"); }), testing::HasSubstr(kind));
  }
}

TEST(ImageParts, AreResizedAsByPyTorch) {
  Image image{{23, 37, 3}, {}};
  for (int y = 0; y < 23; ++y)
    for (int x = 0; x < 37; ++x)
      for (int c = 0; c < 3; ++c)
        image.pixels.push_back(
            static_cast<std::uint8_t>((y * 37 + x * 91 + c * 53 + (x * y) % 29 * 7) % 256));
  // Sums of torch.nn.functional.interpolate(mode="bilinear", antialias=True) of PyTorch 2.15 in
  // double, rounded: of all values, and of value i times i mod 101.
  struct Case {
    Box box;
    std::int64_t height, width, sum, weighted;
    std::vector<int> first;
  };
  const std::vector<Case> cases{{{0, 0, 23, 37}, 8, 8, 24167, 1148426, {118, 134, 132}},
                                {{2, 5, 17, 11}, 8, 8, 24341, 1153210, {129, 152, 97}},
                                {{3, 4, 5, 6}, 12, 16, 74078, 3619886, {47, 100, 153}},
                                {{0, 0, 23, 37}, 23, 37, 320997, 15880880, {0, 53, 106}},
                                {{1, 1, 20, 30}, 7, 31, 81825, 3944948, {160, 150, 105}}};
  for (const Case& c : cases) {
    Bytes out(3 * c.height * c.width);
    resize(image, c.box, c.height, c.width, out.data());
    std::int64_t sum = 0, weighted = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      sum += out[i];
      weighted += out[i] * static_cast<std::int64_t>(i % 101);
    }
    // A value that lies halfway between two integers may be rounded to the other.
    EXPECT_NEAR(static_cast<double>(sum), static_cast<double>(c.sum), 2);
    EXPECT_NEAR(static_cast<double>(weighted), static_cast<double>(c.weighted), 200);
    EXPECT_EQ(std::vector<int>(out.begin(), out.begin() + 3), c.first);
  }
}

TEST(ImageParts, OfEvaluationLieInTheMiddle) {
  EXPECT_EQ(centre_box({100, 200, 3}, 50, 50, 1), (Box{0, 50, 100, 100}));
  EXPECT_EQ(centre_box({100, 200, 3}, 50, 50, 0.5), (Box{25, 75, 50, 50}));
  EXPECT_EQ(centre_box({100, 200, 3}, 40, 20, 1), (Box{0, 75, 100, 50}));
  EXPECT_EQ(centre_box({1, 9, 3}, 224, 224, 0.875), (Box{0, 4, 1, 1}));
}

TEST(ImageParts, OfTrainingKeepTheirBounds) {
  const ImageSize size{120, 90, 3};
  const RandomBox bounds{.least_area = 0.2, .most_area = 0.8};
  std::set<std::pair<std::int64_t, std::int64_t>> corners;
  for (std::uint32_t i = 0; i < 500; ++i) {
    Random random(3, Purpose::augment, 1, i), same = random;
    const Box box = random_box(size, bounds, random);
    EXPECT_EQ(box, random_box(size, bounds, same)) << "the numbers decide";
    const double area = static_cast<double>(box.height * box.width),
                 ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_GE(area, 0.19 * 120 * 90);
    EXPECT_LE(area, 0.81 * 120 * 90);
    EXPECT_GE(ratio, 0.73);
    EXPECT_LE(ratio, 1.37);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.top + box.height, 120);
    EXPECT_LE(box.left + box.width, 90);
    corners.insert({box.top, box.left});
  }
  EXPECT_GT(corners.size(), 300u);
  Random random(1, Purpose::augment, 0, 0);
  EXPECT_EQ(random_box({300, 3, 3}, {}, random), (Box{148, 0, 4, 3})) << "no part fits by chance";
}

}  // namespace
}  // namespace lockstep
