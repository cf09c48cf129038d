// CIFAR-10's binary files, on copies of a few records each.
#include "src/data/sets/cifar.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "src/base/table.h"
#include "src/data/augment.h"
#include "src/data/read_in_parallel.h"
#include "src/data/samples.h"
#include "src/data/sets/data_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::int64_t kFew = 4;

/// Byte `offset` of record `record` of file `file` (0 .. 5, the last is the test file); labels at
/// offset 0.
std::uint8_t byte_of(int file, std::int64_t record, std::int64_t offset) {
  if (offset == 0) return static_cast<std::uint8_t>((file * 3 + record) % 10);
  return static_cast<std::uint8_t>(file * 41 + record * 17 + offset * 7 + offset / 1024 * 31);
}

class Cifar : public ::testing::Test {
 protected:
  Cifar() {
    for (int file = 0; file < 6; ++file) write(file, kFew * kCifarRecordBytes);
    write_names("airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  }

  static std::string name(int file) {
    return file == 5 ? "test_batch.bin" : fmt::format("data_batch_{}.bin", file + 1);
  }
  void write(int file, std::int64_t bytes) {
    std::string content;
    for (std::int64_t i = 0; i < bytes; ++i)
      content += static_cast<char>(byte_of(file, i / kCifarRecordBytes, i % kCifarRecordBytes));
    put(folder_ / name(file), content);
  }
  void write_names(const std::string& text) { put(names_, text); }
  OpenedData open(bool whole = false) { return open_cifar10_files(folder_.path(), kFew, whole); }

  /// The error of `action` contains `words`, is one line and names the advice.
  static void expect_refused(const std::function<void()>& action,
                             std::vector<std::string_view> words) {
    const std::string text = error_of(action);
    words.push_back("scripts/get_data.sh cifar10");
    EXPECT_TRUE(mentions(text, words));
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
  void expect_refused(const std::vector<std::string_view>& words) {
    expect_refused([&] { open(); }, words);
  }

  const TemporaryDirectory folder_;
  const fs::path names_ = folder_ / "batches.meta.txt";
};

TEST_F(Cifar, WholeImagesAreStandardisedByChannel) {
  const OpenedData pair = open(/*whole=*/true);
  EXPECT_EQ(pair.identity, open().identity) << "the same files";
  ASSERT_EQ(pair.train->sample_shape(), (Shape{1, 32, 32, 3}));
  std::vector<float> image(32 * 32 * 3);
  pair.test->read(2, nullptr, image.data(), Type::f32);
  const float mean[] = {125.306918f, 122.950394f, 113.865383f},
              deviation[] = {62.993219f, 62.088708f, 66.704900f};
  for (int pixel = 0; pixel < 1024; ++pixel) {
    for (int c = 0; c < 3; ++c) {
      const float value = byte_of(5, 2, 1 + c * 1024 + pixel);
      ASSERT_NEAR(image[pixel * 3 + c], (value - mean[c]) / deviation[c], 1e-5);
    }
  }
  const std::vector<float> still = image;
  Random random(1, Purpose::augment, 0, 3);
  pair.test->read(2, &random, image.data(), Type::f32);
  EXPECT_NE(image, still) << "moved in training";
}

TEST_F(Cifar, ReadsEveryRecordInOrder) {
  const OpenedData pair = open();
  EXPECT_EQ(pair.train->size(), 5 * kFew);
  EXPECT_EQ(pair.test->size(), kFew);
  EXPECT_EQ(pair.train->classes(), 10);
  EXPECT_EQ(pair.train->sample_shape(), (Shape{1, 24, 24, 3}));
  EXPECT_EQ(pair.class_names.size(), 10u);
  EXPECT_EQ(pair.class_names.front(), "airplane");
  EXPECT_EQ(pair.class_names.back(), "truck");
  EXPECT_EQ(pair.train->describe(),
            fmt::format("CIFAR-10, 20 training images from {}", folder_.path().string()));

  const auto check = [](const Dataset& set, std::int64_t index, int file, std::int64_t record) {
    EXPECT_EQ(set.label(index), byte_of(file, record, 0));
    std::vector<std::uint8_t> planes(kImageValues);
    for (int i = 0; i < kImageValues; ++i) planes[i] = byte_of(file, record, 1 + i);
    std::vector<float> got(set.sample_shape().count()), want(got.size());
    Random one(1, Purpose::augment, 0, 0), two(1, Purpose::augment, 0, 0);
    set.read(index, &one, got.data(), Type::f32);
    make_sample(set.format(), {planes.data(), &two, {}}, nullptr, want.data(), Type::f32);
    EXPECT_EQ(got, want) << file << " " << record;
    set.read(index, nullptr, got.data(), Type::f32);
    make_sample(set.format(), {planes.data()}, nullptr, want.data(), Type::f32);
    EXPECT_EQ(got, want) << file << " " << record;
  };
  for (std::int64_t i = 0; i < 5 * kFew; ++i)
    check(*pair.train, i, static_cast<int>(i / kFew), i % kFew);
  for (std::int64_t i = 0; i < kFew; ++i) check(*pair.test, i, 5, i);
}

TEST_F(Cifar, AcceptsTheFolderAboveToo) {
  fs::create_directories(folder_ / "above");
  fs::create_directory_symlink(folder_.path(), folder_ / "above/cifar-10-batches-bin");
  EXPECT_EQ(open_cifar10_files(folder_ / "above", kFew).train->size(), 5 * kFew);
}

TEST_F(Cifar, NamesWhatIsMissing) {
  expect_refused([] { open_cifar10_files("", kFew); }, {"--data DIR"});
  const fs::path nowhere = folder_ / "nowhere";
  expect_refused([&] { open_cifar10_files(nowhere, kFew); }, {nowhere.c_str()});
  for (const char* name : {"test_batch.bin", "data_batch_3.bin"}) {
    fs::remove(folder_ / name);
    expect_refused({(folder_ / name).c_str(), "No such file"});
  }
}

TEST_F(Cifar, NamesMissingClassNames) {
  write_names("airplane\nautomobile\n");
  expect_refused({"batches.meta.txt", "2 class names", "10"});
  fs::remove(names_);
  expect_refused({"batches.meta.txt is missing"});
  fs::create_directory(names_);
  expect_refused({"not a regular file"});
  fs::remove(names_);
  ASSERT_EQ(mkfifo(names_.c_str(), 0600), 0);
  expect_refused({"not a regular file"});
  fs::remove(names_);
  fs::create_symlink("/dev/zero", names_);
  expect_refused({"not a regular file"});
}

TEST_F(Cifar, NamesTheActualAndTheExpectedSize) {
  write(1, kFew * kCifarRecordBytes - 1);
  expect_refused({"data_batch_2.bin", "12291 bytes", "12292", "truncated"});
  write(1, kFew * kCifarRecordBytes + 1);
  expect_refused({"data_batch_2.bin", "12293 bytes", "12292"});
  write(1, 0);
  expect_refused({"data_batch_2.bin", "0 bytes", "12292", "truncated"});
}

TEST_F(Cifar, TheOfficialFilesHaveTenThousandRecords) {
  expect_refused([&] { find(datasets(), "cifar10").open({{{folder_.path()}}}); },
                 {"data_batch_1.bin", "12292 bytes", "30730000"});
}

TEST_F(Cifar, NamesTheRecordOfABadLabel) {
  for (const int file : {4, 5}) {
    std::string bytes = contents(folder_ / name(file));
    bytes[2 * kCifarRecordBytes] = 10;
    put(folder_ / name(file), bytes);
    expect_refused({name(file), "record 2 ", "label 10,", "0 to 9"});
    write(file, kFew * kCifarRecordBytes);
  }
}

TEST_F(Cifar, ReadsRegularFilesOnly) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, folder_.path()}) {
    EXPECT_EQ(error_of([&] { DataFile(path, 1, "the advice"); }),
              fmt::format("{} is not a regular file. the advice", path.string()));
  }
}

TEST_F(Cifar, AFileThatChangesDuringTheRunIsAnError) {
  const fs::path path = folder_ / name(1);
  const OpenedData data = open();
  const auto read = [&] {
    std::vector<std::uint8_t> bytes(kImageValues);
    data.train->stored(kFew + 1, bytes.data());
  };
  EXPECT_NO_THROW(read());
  fs::resize_file(path, 0);
  expect_error({path.c_str(), "truncated"}, read);
  write(1, kFew * kCifarRecordBytes + 1);
  expect_error({path.c_str(), "12292", "12293"}, read);
  write(1, kFew * kCifarRecordBytes);
  const auto later = [&](int seconds) {
    fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::seconds(seconds));
  };
  later(10);
  EXPECT_NO_THROW(read()) << "the same bytes with another time";
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out).seekp(100).put('x');
  later(20);
  expect_error({path.c_str(), "content"}, read);
  fs::remove(path);  // the open file stays as it was
  expect_error({path.c_str(), "content"}, read);
}

TEST_F(Cifar, KeepsReadingAReplacedFile) {
  const OpenedData data = open();
  fs::remove(folder_ / name(0));
  write(0, 7);
  std::vector<std::uint8_t> bytes(kImageValues);
  data.train->stored(2, bytes.data());
  EXPECT_EQ(bytes[5], byte_of(0, 2, 6));
}

/// An error in any thread of a parallel loop is the caller's.
TEST_F(Cifar, RethrowsTheErrorOfAThread) {
  for (const int threads : {1, 3}) {
    const std::string text = error_of([&] {
      read_in_parallel(threads, 30, 1, [](std::int64_t, std::int64_t end) {
        if (end == 30) fail("part {}", end);
      });
    });
    EXPECT_EQ(text, "part 30") << threads;
  }
}

}  // namespace
}  // namespace lockstep
