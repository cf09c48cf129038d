// MNIST's IDX files, on sets of a few images, as they are and compressed.
#include "src/data/sets/mnist.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <set>
#include <span>

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
  /// The error when opening has all of `parts`, is one line and names the advice.
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
  const OpenedData pair = open_mnist({root_.path(), 0});
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
    expect_refused({"cannot open", file, "No such file"});
    fs::create_directory(root_.path() / file / file);
    expect_refused({file, "is not a regular file"});
    fs::remove_all(root_ / file);
    write(file, content_of(static_cast<int>(std::find(kFiles, kFiles + 4, file) - kFiles)));
  }
}

// A few kilobytes that promise more samples, and contain some of them.
TEST_F(Mnist, DoesNotInflateMoreThanTheLabels) {
  const std::string part(1 << 20, '\0');
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  for (const int number : {0, 1}) {
    const std::string name = kFiles[number];
    const std::string header =
        number == 0 ? big_endian({2051, 1 << 20, 28, 28}) : big_endian({2049, (1 << 26) + 1});
    fs::remove(root_ / name);
    const gzFile file = gzopen((root_ / (name + ".gz")).c_str(), "wb1");
    gzwrite(file, header.data(), static_cast<unsigned>(header.size()));
    for (int i = 0; i < 128; ++i) gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
    gzclose(file);
    expect_refused(number == 0 ? std::vector<std::string>{"1048576 images", "12 labels"}
                               : std::vector<std::string>{name, "67108865", "limit"});
  }
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 64 << 10) << "KiB";
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
    expect_refused({kFiles[file], "4294967295"});
    write(kFiles[file], whole);
  }
}

TEST_F(Mnist, ComparesTheNumbersOfImagesAndLabels) {
  write(kFiles[3], content_of(1));
  expect_refused({kFiles[2], "3 images", kFiles[3], "12 labels"});
}

/// The same files under the names and in the folders of other programs.
TEST_F(Mnist, ReadsOtherNamesAndPlaces) {
  const std::string identity = open_mnist({root_.path(), 0}).identity;
  const auto expect_read = [&](const std::string& place, const auto& name_of) {
    const TemporaryDirectory other;
    for (int file = 0; file < 4; ++file) {
      const fs::path path = other.path() / place / name_of(kFiles[file]);
      fs::create_directories(path.parent_path());
      put(path, content_of(file));
    }
    EXPECT_EQ(open_mnist({other.path(), 0}).identity, identity) << place << name_of("train");
  };
  const auto same = [](const std::string& name) { return name; };
  for (const char* place : {"", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw", "gzip"})
    expect_read(place, same);
  expect_read("", [](std::string name) { return name.replace(name.find("-idx"), 1, "."); });
  expect_read("raw", [](std::string name) { return name.replace(name.find("-idx"), 1, "."); });
  expect_read("", [](std::string name) {
    return name.starts_with("t10k") ? name.replace(0, 4, "test") : name;
  });
  expect_read("", [](const std::string& name) { return name + "/" + name; });
  expect_read("", [](std::string name) {  // an unzipped archive has both
    return name.starts_with("train") ? name.replace(name.find("-idx"), 1, ".") : name + "/" + name;
  });
}

TEST_F(Mnist, NamesTheDataSetsOfAFolder) {
  for (const char* place : {"MNIST/raw", "FashionMNIST/raw"}) {
    fs::create_directories(root_.path() / "both" / place);
    for (int file = 0; file < 4; ++file)
      put(root_.path() / "both" / place / kFiles[file], content_of(file));
  }
  const fs::path both = root_.path() / "both";
  EXPECT_TRUE(mentions(
      error_of([&] {
        open_mnist({both, 0});
      }),
      {"several", "--data", (both / "MNIST/raw").c_str(), (both / "FashionMNIST/raw").c_str()}));
  EXPECT_EQ(open_mnist({both / "MNIST", 0}).train->size(), kTrain);
  EXPECT_EQ(open_mnist({both / "FashionMNIST/raw/", 0}).train->size(), kTrain);
}

class Emnist : public Mnist {
 protected:
  /// Images with labels from `first` on, `classes` of them, under EMNIST's names.
  void write_split(const std::string& split, int first, int classes) const {
    for (const bool train : {true, false}) {
      const auto count = static_cast<std::uint32_t>(classes);
      std::string images = big_endian({2051, count, 28, 28}), labels = big_endian({2049, count});
      for (int i = 0; i < classes; ++i) {
        labels += static_cast<char>(first + i);
        for (int p = 0; p < kDigitPixels; ++p) images += static_cast<char>(pixel_of(0, i, p));
      }
      const std::string begin = fmt::format("emnist-{}-{}-", split, train ? "train" : "test");
      put(folder_ / (begin + "images-idx3-ubyte"), images);
      put(folder_ / (begin + "labels-idx1-ubyte"), labels);
    }
  }
  TemporaryDirectory folder_;
};

TEST_F(Emnist, LettersBeginWithOneAndStandUpright) {
  write_split("letters", 1, 26);
  const OpenedData pair = open_mnist({folder_.path(), 0});
  ASSERT_EQ(pair.train->classes(), 26);
  EXPECT_EQ(pair.class_names.front(), "1");
  EXPECT_EQ(pair.class_names.back(), "26");
  EXPECT_TRUE(pair.notes.empty());
  for (int i = 0; i < 26; ++i) {
    EXPECT_EQ(pair.train->label(i), i);
    const std::uint8_t* image = pair.test->stored(i, nullptr);
    for (int row = 0; row < 28; ++row)
      for (int column = 0; column < 28; ++column)
        ASSERT_EQ(image[row * 28 + column], pixel_of(0, i, column * 28 + row));
  }
}

TEST_F(Emnist, AsksWhichSplit) {
  write_split("letters", 1, 26);
  write_split("byclass", 0, 62);
  const std::string letters = folder_ / "emnist-letters", all = folder_ / "emnist-byclass";
  EXPECT_TRUE(mentions(error_of([&] {
                         open_mnist({folder_.path(), 0});
                       }),
                       {"several", "--data", letters, all}));
  EXPECT_EQ(open_mnist({letters, 0}).train->classes(), 26);
  EXPECT_EQ(open_mnist({all, 0}).train->classes(), 62);
  fs::remove(folder_ / "emnist-letters-train-images-idx3-ubyte");
  EXPECT_TRUE(mentions(error_of([&] {
                         open_mnist({letters, 0});
                       }),
                       {"cannot open", "emnist-letters-train-images-idx3-ubyte"}));
}

/// Labels above 9 under MNIST's names are those of another data set, not damage.
TEST_F(Mnist, LabelsAboveNineAreMoreClasses) {
  const auto label = [&](int first, int last) {
    const auto count = static_cast<std::uint32_t>(last - first + 1);
    std::string images = big_endian({2051, count, 28, 28}), labels = big_endian({2049, count});
    images.resize(16 + count * kDigitPixels, '\7');
    for (int i = first; i <= last; ++i) labels += static_cast<char>(i);
    write(kFiles[0], images);
    write(kFiles[1], labels);
  };
  label(0, 46);
  OpenedData pair = open_mnist({root_.path(), 0});
  EXPECT_EQ(pair.train->classes(), 47);
  EXPECT_EQ(pair.notes.size(), 1u);
  label(1, 26);  // the test images have the label 0
  EXPECT_EQ(open_mnist({root_.path(), 0}).train->classes(), 27);
  std::string labels = content_of(3);
  for (char& byte : std::span(labels).subspan(8)) byte += 1;
  write(kFiles[3], labels);
  pair = open_mnist({root_.path(), 0});
  EXPECT_EQ(pair.train->classes(), 26);
  EXPECT_EQ(pair.train->label(25), 25);
  EXPECT_EQ(pair.class_names.back(), "26");
  EXPECT_EQ(pair.test->label(0), labels[8] - 1);
}

TEST_F(Mnist, NamesAGapInTheLabels) {
  std::string bytes = content_of(1);
  bytes[8 + 5] = 37;
  write(kFiles[1], bytes);
  expect_refused({"go to 37", "no image has label 5"});
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
