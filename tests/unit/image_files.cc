// Decoding of image files in every supported format, and resizing of their parts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "src/data/image/image.h"
#include "src/data/image/image_index.h"
#include "tests/support/files.h"
#include "tests/support/image_bytes.h"

namespace lockstep {
namespace {

/// A file of tests/data/images. Animation, pixels and pixels16 (a PNG file without a note of its
/// gamma) show kPixels. The others have 32 x 16 pixels in quarters, red, green; blue, black;
/// turned.heic by 90 degrees. Written by Pillow 12 and libheif.
Bytes stored(const std::string& name) {
  return read_image_bytes(std::filesystem::path(SOURCE_DIR) / "tests/data/images" / name);
}

// 3 x 2 pixels: red, green, blue; (10, 20, 30), (200, 100, 50), white.
const Bytes kPixels{255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30, 200, 100, 50, 255, 255, 255};

/// Bands of a TIFF file besides its colours.
struct Bands {
  std::uint32_t count = 3;        ///< of all bands: 3 of RGB, 1 of grey, and others
  int extra = -1;                 ///< the meaning of the first other one; -1: none is declared
  std::uint32_t photometric = 2;  ///< RGB
};

/// Without compression, 8 bits.
Bytes tiff_of(const Bytes& pixels, std::uint32_t width, std::uint32_t height, int orientation = 1,
              const Bands& bands = {}) {
  const std::uint32_t entries = bands.extra < 0 ? 9 : 10, bits = 8 + 2 + 12 * entries + 4,
                      begin = bits + 2 * bands.count;
  Bytes file{'I', 'I', 42, 0, 8, 0, 0, 0, static_cast<std::uint8_t>(entries), 0};
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
  entry(258, bands.count, bands.count == 2 ? 0x80008 : bits);
  entry(259, 1, 1);
  entry(262, 1, bands.photometric);
  entry(273, 1, begin);
  entry(274, 1, static_cast<std::uint32_t>(orientation));
  entry(277, 1, bands.count);
  entry(279, 1, static_cast<std::uint32_t>(pixels.size()));
  if (bands.extra >= 0) entry(338, 1, static_cast<std::uint32_t>(bands.extra));
  add(0, 4);
  for (std::uint32_t c = 0; c < bands.count; ++c) add(8, 2);
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

/// 2 x 1 pixels of 32 bits, with a header of `header` bytes and masks if it has room for them.
Bytes bmp_of(const Bytes& pixels, std::uint8_t header, bool masks, std::uint8_t alpha) {
  Bytes file(14 + header);
  file[0] = 'B', file[1] = 'M', file[10] = 14 + header, file[14] = header;
  file[18] = 2, file[22] = 1, file[26] = 1, file[28] = 32, file[30] = masks ? 3 : 0;
  if (header > 40) file[56] = file[59] = file[62] = 255, file[69] = alpha;
  file.insert(file.end(), pixels.begin(), pixels.end());
  return file;
}

/// The contents of APP1 with this orientation, in either order of bytes.
Bytes exif(int orientation, bool little = false) {
  Bytes marker{'E', 'x', 'i', 'f', 0, 0,  'M', 'M', 0, 42, 0, 0,
               0,   8,   0,   1,   1, 18, 0,   3,   0, 0,  0, 1};
  if (little)
    marker = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 18, 1, 3, 0, 1, 0, 0, 0};
  marker.resize(32);
  marker[little ? 24 : 25] = static_cast<std::uint8_t>(orientation);
  return marker;
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

void expect_near(const Image& image, std::int64_t y, std::int64_t x, const std::vector<int>& rgb) {
  const std::uint8_t* pixel = &image.pixels[3 * (y * image.size.width + x)];
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(pixel[c], rgb[c], 3) << y << " " << x << " " << c;
}

TEST(ImageFiles, LosslessFormatsKeepEveryPixel) {
  for (const Bytes& file : {stored("pixels.bmp"), stored("pixels.gif"), stored("pixels.webp"),
                            stored("pixels16.png"), stored("animation.webp"), stored("pixels.tiff"),
                            tiff_of(kPixels, 3, 2), png_of(kPixels, 3, 2)}) {
    if (!can_read(file)) continue;
    const Image image = decode_image(file, "a");
    EXPECT_EQ(image.size, (ImageSize{2, 3, 3}));
    EXPECT_EQ(image.pixels, kPixels);
  }
}

TEST(ImageFiles, GreyBecomesRgbAndWhiteShowsThrough) {
  EXPECT_EQ(decode_image(png_of({7, 200}, 2, 1, Colours::grey), "a").pixels,
            (Bytes{7, 7, 7, 200, 200, 200}));
  const Bytes rgba{10, 20, 30, 255, 10, 20, 30, 0};
  EXPECT_EQ(decode_image(png_of(rgba, 2, 1, Colours::rgba), "a").pixels,
            (Bytes{10, 20, 30, 255, 255, 255}));
  const Bytes grey(64, 90);
  const Image jpeg = decode_image(jpeg_of(grey, 8, 8, {Colours::grey}), "a");
  EXPECT_EQ(jpeg.size.channels, 3);
  expect_near(jpeg, 4, 4, {90, 90, 90});
}

TEST(ImageFiles, AFourthBandIsAlphaOnlyIfDeclared) {
  const Bytes pixels{10, 20, 30, 51, 40, 50, 60, 0}, rgb{10, 20, 30, 40, 50, 60},
      multiplied{214, 224, 234, 255, 255, 255}, separate{206, 208, 210, 255, 255, 255};
  if (!can_read(tiff_of(pixels, 2, 1, 1, {4})) || !can_read(bmp_of(pixels, 40, false, 0))) return;
  const auto tiff = [&](const Bands& bands) {
    return decode_image(tiff_of(pixels, 8 / bands.count, 1, 1, bands), "a").pixels;
  };
  EXPECT_EQ(tiff({4}), rgb);
  EXPECT_EQ(tiff({4, 0}), rgb);
  EXPECT_EQ(tiff({4, 1}), multiplied);
  EXPECT_EQ(tiff({4, 2}), separate);
  EXPECT_EQ(tiff({2, 2, 1})[3], (30 * 51 + 255 * 204 + 127) / 255);  // grey
  EXPECT_EQ(tiff({2, 0, 1})[3], 30);
  const Bytes bgra{30, 20, 10, 51, 60, 50, 40, 0};
  const auto bmp = [&](std::uint8_t header, bool masks, std::uint8_t alpha) {
    return decode_image(bmp_of(bgra, header, masks, alpha), "a").pixels;
  };
  EXPECT_EQ(bmp(40, false, 0), rgb);
  EXPECT_EQ(bmp(108, false, 255), rgb);
  EXPECT_EQ(bmp(108, true, 0), rgb);
  EXPECT_EQ(bmp(108, true, 255), separate);
}

/// The quarters of an upright image by EXIF's orientation of the stored one: red 0, green 1, blue
/// 2, black 3.
const std::vector<std::vector<int>> kUpright{{0, 1, 2, 3}, {1, 0, 3, 2}, {3, 2, 1, 0},
                                             {2, 3, 0, 1}, {0, 2, 1, 3}, {2, 0, 3, 1},
                                             {3, 1, 2, 0}, {1, 3, 0, 2}};

void expect_quarters(const Bytes& file, const std::vector<int>& wanted, const ImageSize& size) {
  if (!can_read(file)) return;
  const Image image = decode_image(file, "a");
  EXPECT_EQ(image.size, size);
  EXPECT_EQ(image_size(file, "a"), size);
  for (int i = 0; i < 4; ++i) {
    std::vector<int> rgb(3);
    if (wanted[i] < 3) rgb[wanted[i]] = 255;
    expect_near(image, (1 + 2 * (i / 2)) * size.height / 4, (1 + 2 * (i % 2)) * size.width / 4,
                rgb);
  }
}

TEST(ImageFiles, JpegOfAllKinds) {
  for (const bool progressive : {false, true})
    expect_quarters(jpeg_of(quarters(16), 16, 16, {.progressive = progressive}), kUpright[0],
                    {16, 16, 3});
  Bytes inks;  // as Adobe stores them: 255 is no ink
  for (int i = 0; i < 64; ++i) inks.insert(inks.end(), {200, 100, 50, 204});
  Bytes file = jpeg_of(inks, 8, 8, {Colours::cmyk});
  expect_near(decode_image(file, "a"), 3, 3, {160, 80, 40});
  const Bytes adobe{0xff, 0xee, 0, 14};  // other readers do not look for this marker
  const auto marker = std::ranges::search(file, adobe).begin();
  ASSERT_NE(marker, file.end());
  file.erase(marker, marker + 16);
  expect_near(decode_image(file, "a"), 3, 3, {160, 80, 40});
}

TEST(ImageFiles, AreUpright) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const std::vector<int>& wanted = kUpright[orientation - 1];
    for (const bool little : {false, true})
      expect_quarters(jpeg_of(quarters(16), 16, 16, {.marker = exif(orientation, little)}), wanted,
                      {16, 16, 3});
    expect_quarters(tiff_of(quarters(8), 8, 8, orientation), wanted, {8, 8, 3});
  }
  expect_quarters(tiff_of(quarters(8), 8, 8, 77), kUpright[0], {8, 8, 3});
  expect_quarters(stored("quarters.heic"), kUpright[0], {16, 32, 3});
  expect_quarters(stored("turned.heic"), kUpright[5], {32, 16, 3});
  expect_quarters(stored("quarters.avif"), kUpright[0], {16, 32, 3});
  const Bytes wide(3 * 8 * 24, 60);
  Bytes marker = exif(6);
  const auto size = [&] {
    return decode_image(jpeg_of(wide, 24, 8, {.marker = marker}), "a").size;
  };
  EXPECT_EQ(size(), (ImageSize{24, 8, 3}));
  marker.resize(20);  // cut off within its entry
  EXPECT_EQ(size(), (ImageSize{8, 24, 3}));
}

TEST(ImageFiles, JpegIsDecodedNoSmallerThanNeeded) {
  const Bytes file = jpeg_of(quarters(64), 64, 64);
  const auto decode = [&](int edge) { return decode_part(file, "a", {0, 0, 64, 64}, edge).image; };
  const auto side = [&](int least) { return decode(least).size.width; };
  EXPECT_EQ(side(0), 64);
  EXPECT_EQ(side(33), 64);
  EXPECT_EQ(side(32), 32);
  EXPECT_EQ(side(16), 16);
  EXPECT_EQ(side(1), 8);
  expect_near(decode(16), 3, 12, {0, 255, 0});
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
      const Bytes file = jpeg_of(
          pixels, kWidth, kHeight,
          {.progressive = orientation == 3, .marker = exif(orientation), .sampling = sampling});
      const ImageSize size = image_size(file, "a");
      for (int i = 0; i < 6; ++i) {
        const Box box = random_box(size, 0.02, random);
        for (const int edge : {0, 8, 40, 200}) {
          const ImagePart part = decode_part(file, "a", box, edge);
          const int least = static_cast<int>(
              std::ceil(double{1} * edge / static_cast<double>(std::min(box.height, box.width)) *
                        static_cast<double>(std::min(size.height, size.width))));
          const Image whole = decode_part(file, "a", {0, 0, size.height, size.width}, least).image;
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
  Bytes bmp = stored("pixels.bmp"), gif = stored("pixels.gif"), webp = stored("pixels.webp"),
        png = png_of(kPixels, 3, 2), jpeg = jpeg_of(quarters(16), 16, 16);
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
    if (!can_read(file)) continue;
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
  std::vector<Bytes> files{stored("pixels.bmp"),    stored("pixels.gif"),
                           stored("pixels.webp"),   stored("animation.webp"),
                           stored("pixels.tiff"),   stored("quarters.heic"),
                           stored("quarters.avif"), tiff_of(kPixels, 3, 2),
                           png_of(kPixels, 3, 2),   jpeg_of(quarters(16), 16, 16)};
  for (const Bytes& whole : files) {
    for (const std::size_t kept :
         {std::size_t{3}, std::size_t{14}, whole.size() / 2, whole.size() - 14}) {
      const Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      EXPECT_THAT(error_of([&] { decode_image(part, "cat/x.jpg"); }),
                  testing::HasSubstr("cat/x.jpg"));
    }
  }
  EXPECT_THAT(error_of([] { decode_image({}, "cat/x"); }), testing::HasSubstr("empty"));
  Bytes huge = stored("pixels.bmp");
  huge[20] = 1;  // 65,539 pixels wide
  EXPECT_THAT(error_of([&] { decode_image(huge, "cat/x"); }), testing::HasSubstr("cat/x"));
  for (const std::uint32_t width : {16385u, 70000u, 0xffffffffu, 0u}) {
    const Bytes wide = tiff_of(kPixels, width, 2);
    EXPECT_THAT(error_of([&] { decode_image(wide, "cat/x"); }), testing::HasSubstr("cat/x"));
  }
}

/// An AVIF file with an empty box of 5000 bytes before its data.
Bytes with_data_moved(Bytes file) {
  constexpr std::size_t kBox = 5000;
  const auto bytes = [](std::size_t number) {
    return std::array{static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
  };
  const std::string_view name = "mdat";
  const auto data = std::search(file.begin(), file.end(), name.begin(), name.end()) + 4;
  const std::size_t place = data - file.begin();
  const auto was = bytes(place), is = bytes(place + kBox), size = bytes(kBox);
  const auto pointer = std::search(file.begin(), data, was.begin(), was.end());
  std::copy(is.begin(), is.end(), pointer);
  Bytes box{0, 0, size[0], size[1], 'f', 'r', 'e', 'e'};
  box.resize(kBox);
  file.insert(data - 8, box.begin(), box.end());
  return file;
}

TEST(ImageFiles, TruncatedOnesAreFoundByTheHeaders) {
  const TemporaryDirectory folder;
  const std::filesystem::path file = folder / "x.jpg";
  const auto check = [&](const Bytes& bytes, bool whole) {
    put(file, std::string(bytes.begin(), bytes.end()));
    check_image(file, whole);
  };
  for (const Bytes& whole :
       {stored("pixels.webp"), stored("animation.webp"), stored("pixels.tiff"),
        tiff_of(quarters(64), 64, 64), stored("quarters.heic"), stored("quarters.avif")}) {
    if (!can_read(whole)) continue;
    EXPECT_NO_THROW(check(whole, false));
    EXPECT_NO_THROW(check(whole, true));
    for (const int missing : {1, 12, 30}) {
      const Bytes cut(whole.begin(), whole.end() - missing);
      EXPECT_THAT(error_of([&] { check(cut, false); }), testing::HasSubstr("x.jpg")) << missing;
    }
  }
  // Headers alone are read, because decoding is slow, also if an empty box moves the data so far.
  for (const bool moved : {false, true}) {
    if (!can_read(stored("quarters.avif"))) break;
    const Bytes whole = moved ? with_data_moved(stored("quarters.avif")) : stored("quarters.avif");
    EXPECT_NO_THROW(check(whole, true));
    Bytes damaged = whole;
    for (std::size_t i = whole.size() - 53; i < whole.size(); ++i) damaged[i] ^= 0x55;
    EXPECT_NO_THROW(check(damaged, false));
    EXPECT_ANY_THROW(check(damaged, true));
    damaged.pop_back();
    EXPECT_ANY_THROW(check(damaged, false));
  }
}

TEST(ImageFiles, WithoutItsLibraryAFormatNamesIt) {
  for (const auto& [file, library] : {std::pair{"pixels.bmp", "stb_image"},
                                      {"pixels.gif", "stb_image"},
                                      {"pixels.webp", "libwebp"},
                                      {"pixels.tiff", "libtiff"},
                                      {"quarters.avif", "libheif"}}) {
    if (can_read(stored(file))) continue;
    EXPECT_TRUE(
        mentions(error_of([&] { decode_image(stored(file), "cat/x"); }), {"cat/x", library}));
  }
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
  std::set<std::pair<std::int64_t, std::int64_t>> corners;
  for (std::uint32_t i = 0; i < 500; ++i) {
    Random random(3, Purpose::augment, 1, i), same = random;
    const Box box = random_box(size, 0.2, random);
    EXPECT_EQ(box, random_box(size, 0.2, same)) << "the numbers decide";
    const double area = static_cast<double>(box.height * box.width),
                 ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    EXPECT_GE(area, 0.19 * 120 * 90);
    EXPECT_GE(ratio, 0.73);
    EXPECT_LE(ratio, 1.37);
    EXPECT_GE(box.top, 0);
    EXPECT_LE(box.top + box.height, 120);
    EXPECT_LE(box.left + box.width, 90);
    corners.insert({box.top, box.left});
  }
  EXPECT_GT(corners.size(), 300u);
  Random random(1, Purpose::augment, 0, 0);
  EXPECT_EQ(random_box({300, 3, 3}, 0.08, random), (Box{148, 0, 4, 3})) << "no part fits by chance";
}

}  // namespace
}  // namespace lockstep
