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
#include "tests/support/error_of.h"

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
  for (const Bytes& file : {bytes_of(kBmp), bytes_of(kGif), bytes_of(kWebp), bytes_of(kPng16),
                            png_of(PNG_FORMAT_RGB, kPixels, 3, 2)}) {
    EXPECT_TRUE(is_image(file));
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
  std::vector<Bytes> files{bytes_of(kBmp), bytes_of(kGif), bytes_of(kWebp),
                           png_of(PNG_FORMAT_RGB, kPixels, 3, 2), jpeg_of(quarters(16), 16, 16)};
  for (const Bytes& whole : files) {
    for (const std::size_t kept :
         {std::size_t{3}, std::size_t{14}, whole.size() / 2, whole.size() - 14}) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      EXPECT_THAT(error_of([&] { decode_image(part, "cat/x.jpg"); }),
                  testing::HasSubstr("cat/x.jpg"));
    }
  }
  EXPECT_FALSE(is_image({}));
  EXPECT_THAT(error_of([] { decode_image({}, "cat/x"); }), testing::HasSubstr("empty"));
  Bytes huge = bytes_of(kBmp);
  huge[20] = 1;  // 65,539 pixels wide
  EXPECT_THAT(error_of([&] { decode_image(huge, "cat/x"); }), testing::HasSubstr("cat/x"));
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
