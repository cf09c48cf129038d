// MNIST's IDX files, on sets of a few images, as they are and compressed.
#include "src/data/sets/mnist.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <set>

#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
const char* const kFiles[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
constexpr std::int64_t kTrain = 12, kTest = 3;

std::uint8_t pixel_of(int part, std::int64_t image, std::int64_t pixel) {
  return static_cast<std::uint8_t>(part * 91 + image * 53 + pixel * 7 + pixel / 28 * 11);
}
std::uint8_t label_of(int part, std::int64_t image) {
  return static_cast<std::uint8_t>((part * 3 + image * 7) % 10);
}

std::string big_endian(std::initializer_list<std::uint32_t> numbers) {
  std::string bytes;
  for (const std::uint32_t number : numbers) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

/// File number `file` of kFiles, whole.
std::string content_of(int file) {
  const int part = file / 2;
  const std::int64_t count = part == 0 ? kTrain : kTest;
  const auto number = static_cast<std::uint32_t>(count);
  std::string bytes =
      file % 2 == 0 ? big_endian({2051, number, 28, 28}) : big_endian({2049, number});
  for (std::int64_t i = 0; i < count; ++i) {
    if (file % 2 == 1) bytes += static_cast<char>(label_of(part, i));
    for (std::int64_t p = 0; file % 2 == 0 && p < kDigitPixels; ++p)
      bytes += static_cast<char>(pixel_of(part, i, p));
  }
  return bytes;
}

class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    for (int file = 0; file < 4; ++file) write(kFiles[file], content_of(file));
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
  }
  /// Instead of the file as it is.
  void compress(const std::string& name, const std::string& bytes) const {
    fs::remove(root_ / name);
    const gzFile file = gzopen((root_ / (name + ".gz")).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  /// The error when opening has all of `parts`, is one line and names the cure.
  void expect_refused(const std::vector<std::string>& parts) const {
    const std::string text = error_of([&] { open_mnist({root_.path(), 0}); });
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    EXPECT_NE(text.find("scripts/get_data.sh mnist "), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }

  TemporaryDirectory root_;
};

TEST_F(Mnist, ReadsEveryImageInOrder) {
  const DatasetPair pair = open_mnist({root_.path(), 0});
  EXPECT_EQ(pair.class_names,
            (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(pair.train->describe(),
            fmt::format("MNIST, 12 training images from {}", root_.path().string()));
  int part = 0;
  for (const Dataset* set : {pair.train.get(), pair.test.get()}) {
    ASSERT_EQ(set->size(), part == 0 ? kTrain : kTest);
    EXPECT_EQ(set->classes(), 10);
    EXPECT_EQ(set->sample_shape(), (Shape{1, 28, 28, 1}));
    for (std::int64_t i = 0; i < set->size(); ++i) {
      EXPECT_EQ(set->label(i), label_of(part, i));
      std::vector<float> plain(kDigitPixels), training(kDigitPixels);
      set->read(i, nullptr, plain.data(), Type::f32);
      Random random(1, Purpose::augment, 0, 0);
      set->read(i, &random, training.data(), Type::f32);
      EXPECT_EQ(plain, training) << "nothing is augmented";
      for (std::int64_t p = 0; p < kDigitPixels; ++p) {
        ASSERT_NEAR(plain[p], (pixel_of(part, i, p) - 33.318421) / 78.567490, 1e-6);
      }
    }
    ++part;
  }
}

TEST_F(Mnist, CompressedOrNotIsTheSameData) {
  const std::string plain = open_mnist({root_.path(), 0}).identity;
  for (int file = 0; file < 4; ++file) {
    EXPECT_NE(plain.find(fmt::format("{} = crc32c ", kFiles[file])), std::string::npos) << plain;
    compress(kFiles[file], content_of(file));
    EXPECT_EQ(open_mnist({root_.path(), 0}).identity, plain);
  }
  std::string other = content_of(0);
  other.back() ^= 1;
  compress(kFiles[0], other);
  EXPECT_NE(open_mnist({root_.path(), 0}).identity, plain);
}

TEST_F(Mnist, NamesWhatIsMissing) {
  EXPECT_NE(error_of([] { open_mnist({"", 0}); }).find("--data DIR"), std::string::npos);
  for (const char* file : kFiles) {
    fs::remove(root_ / file);
    expect_refused({"cannot open", file, "No such file"});
    fs::create_directory(root_ / file);
    expect_refused({file, "is not a regular file"});
    fs::remove(root_ / file);
    write(file, content_of(static_cast<int>(std::find(kFiles, kFiles + 4, file) - kFiles)));
  }
}

TEST_F(Mnist, NamesAFileOfAnotherKind) {
  write(kFiles[0], content_of(1));
  expect_refused({kFiles[0], "0x00000801, not 0x00000803", "images"});
  write(kFiles[0], content_of(0));
  write(kFiles[3], content_of(2));
  expect_refused({kFiles[3], "0x00000803, not 0x00000801", "labels"});
}

TEST_F(Mnist, NamesAnotherShape) {
  std::string bytes = content_of(2);
  bytes[11] = 32;
  write(kFiles[2], bytes);
  expect_refused({kFiles[2], "32 rows, not 28"});
  bytes = content_of(2);
  bytes[15] = 27;
  write(kFiles[2], bytes);
  expect_refused({kFiles[2], "27 columns, not 28"});
}

TEST_F(Mnist, ComparesSizesWithTheHeader) {
  for (int file = 0; file < 4; ++file) {
    const std::string whole = content_of(file);
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, whole.size() - 1}) {
      write(kFiles[file], whole.substr(0, length));
      expect_refused({kFiles[file], fmt::format("{} bytes", length), "truncated"});
    }
    write(kFiles[file], whole + "x");
    expect_refused({kFiles[file], "continues after"});
    std::string none = whole;
    none.replace(4, 4, 4, '\0');
    write(kFiles[file], none);
    expect_refused({kFiles[file], "no samples"});
    std::string many = whole;
    many.replace(4, 4, 4, '\xff');  // 4 TiB of images
    write(kFiles[file], many);
    expect_refused({kFiles[file], "its header promises", "truncated"});
    write(kFiles[file], whole);
  }
}

TEST_F(Mnist, ComparesTheNumbersOfImagesAndLabels) {
  write(kFiles[3], content_of(1));
  expect_refused({kFiles[2], "3 images", kFiles[3], "12 labels"});
}

TEST_F(Mnist, NamesABadLabel) {
  std::string bytes = content_of(1);
  bytes[8 + 5] = 10;
  write(kFiles[1], bytes);
  expect_refused({kFiles[1], "label 5 is 10", "0 to 9"});
}

TEST_F(Mnist, NoticesDamageInCompressedFiles) {
  compress(kFiles[0], content_of(0));
  const std::string name = std::string(kFiles[0]) + ".gz", whole = contents(root_ / name);
  write(name, whole.substr(0, whole.size() / 2));
  expect_refused({name, "truncated or damaged (unexpected end of file)"});
  for (const std::size_t place : {whole.size() / 2, whole.size() - 6}) {  // data, checksum
    std::string damaged = whole;
    damaged[place] ^= 0x55;
    write(name, damaged);
    expect_refused({name, "truncated or damaged ("});
  }
  write(name, whole);
  EXPECT_NO_THROW(open_mnist({root_.path(), 0}));
}

}  // namespace
}  // namespace lockstep
