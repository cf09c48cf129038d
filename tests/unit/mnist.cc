// MNIST's IDX files, on sets of a few images, as they are and compressed.
#include "src/data/sets/mnist.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <span>

#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/idx.h"

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

/// File number `file` of kFiles, whole.
std::string content_of(int file) {
  const int part = file / 2;
  const std::int64_t count = part == 0 ? kTrain : kTest;
  if (file % 2 == 1) return idx_labels(count, [&](std::int64_t i) { return label_of(part, i); });
  return idx_images(count, [&](std::int64_t i, std::int64_t p) { return pixel_of(part, i, p); });
}

class Mnist : public ::testing::Test {
 protected:
  Mnist() {
    for (int file = 0; file < 4; ++file) write(kFiles[file], content_of(file));
  }
  void write(const std::string& name, const std::string& bytes) const { put(root_ / name, bytes); }
  OpenedData open() const { return open_mnist({{{root_.path()}}}); }
  /// Instead of the file as it is.
  void compress(const std::string& name, const std::string& bytes) const {
    fs::remove(root_ / name);
    const gzFile file = gzopen((root_ / (name + ".gz")).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  /// The error when opening has all of `parts`, is one line and names the advice.
  void expect_refused(std::vector<std::string_view> parts) const {
    const std::string text = error_of([&] { open(); });
    parts.push_back("scripts/get_data.sh mnist ");
    EXPECT_TRUE(mentions(text, parts));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }

  TemporaryDirectory root_;
};

TEST_F(Mnist, ReadsEveryImageInOrder) {
  const OpenedData pair = open();
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
  const std::string plain = open().identity;
  for (int file = 0; file < 4; ++file) {
    EXPECT_NE(plain.find(fmt::format("{} = crc32c ", kFiles[file])), std::string::npos) << plain;
    compress(kFiles[file], content_of(file));
    EXPECT_EQ(open().identity, plain);
  }
  std::string other = content_of(0);
  other.back() ^= 1;
  compress(kFiles[0], other);
  EXPECT_NE(open().identity, plain);
}

TEST_F(Mnist, NamesWhatIsMissing) {
  expect_error({"--data DIR"}, [] { open_mnist({}); });
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
        number == 0 ? idx_header({2051, 1 << 20, 28, 28}) : idx_header({2049, (1 << 26) + 1});
    fs::remove(root_ / name);
    const gzFile file = gzopen((root_ / (name + ".gz")).c_str(), "wb1");
    gzwrite(file, header.data(), static_cast<unsigned>(header.size()));
    for (int i = 0; i < 128; ++i) gzwrite(file, part.data(), static_cast<unsigned>(part.size()));
    gzclose(file);
    number == 0 ? expect_refused({"1048576 images", "12 labels"})
                : expect_refused({name, "67108865", "limit"});
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
  for (const auto& [place, extent, words] :
       {std::tuple{11, 32, "32 rows, not 28"}, {15, 27, "27 columns, not 28"}}) {
    std::string bytes = content_of(2);
    bytes[place] = static_cast<char>(extent);
    write(kFiles[2], bytes);
    expect_refused({kFiles[2], words});
  }
}

TEST_F(Mnist, ComparesSizesWithTheHeader) {
  for (int file = 0; file < 4; ++file) {
    const std::string whole = content_of(file);
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, whole.size() - 1}) {
      write(kFiles[file], whole.substr(0, length));
      expect_refused({kFiles[file], fmt::format("{} bytes", length), "truncated"});
    }
    const auto with_count = [&](char byte) { return std::string(whole).replace(4, 4, 4, byte); };
    for (const auto& [bytes, words] : {std::pair{whole + "x", "continues after"},
                                       {with_count('\0'), "no samples"},
                                       {with_count('\xff'), "4294967295"}}) {  // 4 TiB of images
      write(kFiles[file], bytes);
      expect_refused({kFiles[file], words});
    }
    write(kFiles[file], whole);
  }
}

TEST_F(Mnist, ComparesTheNumbersOfImagesAndLabels) {
  write(kFiles[3], content_of(1));
  expect_refused({kFiles[2], "3 images", kFiles[3], "12 labels"});
}

/// The same files under the names and in the folders of other programs.
TEST_F(Mnist, ReadsOtherNamesAndPlaces) {
  const std::string identity = open().identity;
  using Rename = std::function<std::string(std::string)>;
  const auto expect_read = [&](const std::string& place, const Rename& name_of) {
    const TemporaryDirectory other;
    for (int file = 0; file < 4; ++file) {
      const fs::path path = other.path() / place / name_of(kFiles[file]);
      fs::create_directories(path.parent_path());
      put(path, content_of(file));
    }
    EXPECT_EQ(open_mnist({{{other.path()}}}).identity, identity) << place << name_of("train");
  };
  const Rename same = [](std::string name) { return name; },
               dotted = [](std::string name) { return name.replace(name.find("-idx"), 1, "."); };
  for (const char* place : {"", "raw", "MNIST/raw", "FashionMNIST/raw", "KMNIST/raw", "gzip"})
    expect_read(place, same);
  for (const char* place : {"", "raw"}) expect_read(place, dotted);
  expect_read("", [](std::string name) {
    return name.starts_with("t10k") ? name.replace(0, 4, "test") : name;
  });
  expect_read("", [](const std::string& name) { return name + "/" + name; });
  expect_read("", [&](std::string name) {  // an unzipped archive has both
    return name.starts_with("train") ? dotted(name) : name + "/" + name;
  });
}

TEST_F(Mnist, NamesTheDataSetsOfAFolder) {
  const fs::path both = root_ / "both";
  for (const char* place : {"MNIST/raw", "FashionMNIST/raw"}) {
    fs::create_directories(both / place);
    for (int file = 0; file < 4; ++file) put(both / place / kFiles[file], content_of(file));
  }
  expect_error(
      {"several", "--data", (both / "MNIST/raw").c_str(), (both / "FashionMNIST/raw").c_str()},
      [&] { open_mnist({{{both}}}); });
  EXPECT_EQ(open_mnist({{{both / "MNIST"}}}).train->size(), kTrain);
  EXPECT_EQ(open_mnist({{{both / "FashionMNIST/raw/"}}}).train->size(), kTrain);
}

class Emnist : public Mnist {
 protected:
  /// Images with labels from `first` on, `classes` of them, under EMNIST's names.
  void write_split(const std::string& split, int first, int classes) const {
    for (const char* part : {"train", "test"}) {
      const std::string begin = fmt::format("emnist-{}-{}-", split, part);
      put(folder_ / (begin + "images-idx3-ubyte"),
          idx_images(classes, [](std::int64_t i, std::int64_t p) { return pixel_of(0, i, p); }));
      put(folder_ / (begin + "labels-idx1-ubyte"),
          idx_labels(classes, [&](std::int64_t i) { return first + i; }));
    }
  }
  TemporaryDirectory folder_;
};

TEST_F(Emnist, LettersBeginWithOneAndStandUpright) {
  write_split("letters", 1, 26);
  const OpenedData pair = open_mnist({{{folder_.path()}}});
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
  expect_error({"several", "--data", letters, all}, [&] { open_mnist({{{folder_.path()}}}); });
  EXPECT_EQ(open_mnist({{{letters}}}).train->classes(), 26);
  EXPECT_EQ(open_mnist({{{all}}}).train->classes(), 62);
  const char* const gone = "emnist-letters-train-images-idx3-ubyte";
  fs::remove(folder_ / gone);
  expect_error({"cannot open", gone}, [&] { open_mnist({{{letters}}}); });
}

/// Labels above 9 under MNIST's names are those of another data set, not damage.
TEST_F(Mnist, LabelsAboveNineAreMoreClasses) {
  const auto label = [&](int first, int last) {
    const int count = last - first + 1;
    write(kFiles[0], idx_images(count, [](std::int64_t, std::int64_t) { return 7; }));
    write(kFiles[1], idx_labels(count, [&](std::int64_t i) { return first + i; }));
  };
  label(0, 46);
  OpenedData pair = open();
  EXPECT_EQ(pair.train->classes(), 47);
  EXPECT_EQ(pair.notes.size(), 1u);
  label(1, 26);  // the test images have the label 0
  EXPECT_EQ(open().train->classes(), 27);
  std::string labels = content_of(3);
  for (char& byte : std::span(labels).subspan(8)) byte += 1;
  write(kFiles[3], labels);
  pair = open();
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
  EXPECT_NO_THROW(open());
}

}  // namespace
}  // namespace lockstep
