#include "src/data/sets/cifar.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/round_up.h"
#include "src/base/text.h"
#include "src/data/augment.h"
#include "src/data/sets/data_file.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kRecords = 10000;
/// With mean and deviation of the training images' channels.
constexpr SampleFormat kWholeImages{.kind = SampleFormat::Kind::images,
                                    .size = kCroppedImages.size,
                                    .normalisation = {{125.306918f, 122.950394f, 113.865383f, 0},
                                                      {62.993219f, 62.088708f, 66.704900f, 1}},
                                    .moved = true,
                                    .padding = kMoves};

class Cifar10 : public Dataset {
 public:
  Cifar10(const std::filesystem::path& directory, const std::vector<std::string>& names,
          std::int64_t records, bool whole, std::string about, const std::string& advice)
      : Dataset(whole ? kWholeImages : kCroppedImages),
        records_(records),
        about_(std::move(about)) {
    for (const std::string& name : names) {
      const auto path = directory / name;
      const auto add_labels = [&](std::int64_t offset, std::span<const std::uint8_t> part) {
        // Parts of the file do not end at records. The labels of the records that begin in this
        // part are read.
        for (std::int64_t at = ceil_div(offset, kCifarRecordBytes) * kCifarRecordBytes;
             at < offset + std::ssize(part); at += kCifarRecordBytes) {
          labels_.push_back(part[at - offset]);
          require(labels_.back() < kClasses,
                  "{}: record {} has label {}, and labels are 0 to {}. It is damaged or of other "
                  "data. {}",
                  path.string(), at / kCifarRecordBytes, labels_.back(), kClasses - 1, advice);
        }
      };
      const DataFile& file =
          files_.emplace_back(path, records * kCifarRecordBytes, advice, add_labels);
      identity_ += fmt::format("{} = crc32c {:08x}\n", name, file.checksum());
    }
  }

  std::int64_t size() const override { return records_ * std::ssize(files_); }
  int classes() const override { return kClasses; }
  std::int32_t label(std::int64_t index) const override { return labels_[index]; }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const std::int64_t begin = index % records_ * kCifarRecordBytes + 1;  // after the label
    files_[index / records_].read(begin, std::span(buffer, kImageValues));
    return buffer;
  }
  std::string describe() const override { return about_; }
  const std::string& identity() const { return identity_; }

 private:
  // DataFile cannot be moved, so a vector cannot hold it.
  std::deque<DataFile> files_;
  std::vector<std::uint8_t> labels_;
  std::int64_t records_;
  std::string about_, identity_;
};

/// One name a line; empty lines do not count.
std::vector<std::string> read_class_names(const std::filesystem::path& path,
                                          const std::string& advice) {
  const std::optional<std::string> text = read_file(path);
  require(text.has_value(), "{} is missing or not a regular file. {}", path.string(), advice);
  std::vector<std::string> names;
  for (std::string& line : lines_of(with_unix_ends(*text))) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(std::move(line));
  }
  require(names.size() == kClasses, "{} contains {} class names, not {}. {}", path.string(),
          names.size(), kClasses, advice);
  return names;
}

}  // namespace

OpenedData open_cifar10_files(const std::filesystem::path& directory, std::int64_t records,
                              bool whole) {
  const auto unpacked = directory / "cifar-10-batches-bin";
  std::error_code unreadable;  // opening the files then fails too and reports the reason
  const auto folder = std::filesystem::is_directory(unpacked, unreadable) ? unpacked : directory;
  const std::string advice =
      look_into("cifar10", "@(cifar-10-batches-bin/|cifar-10-binary.tar.gz?(.part))", directory,
                folder / "data_batch_1.bin");
  const auto open = [&](const std::vector<std::string>& files, const char* part) {
    const auto about = fmt::format("CIFAR-10, {} {} images from {}", records * std::ssize(files),
                                   part, folder.string());
    return std::make_unique<Cifar10>(folder, files, records, whole, about, advice);
  };
  auto train = open({"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                     "data_batch_5.bin"},
                    "training");
  auto test = open({"test_batch.bin"}, "test");
  OpenedData pair;
  pair.identity = train->identity() + test->identity();
  pair.train = std::move(train);
  pair.test = std::move(test);
  pair.class_names = read_class_names(folder / "batches.meta.txt", advice);
  return pair;
}

template <bool whole>
OpenedData open(const DataSource& source) {
  return open_cifar10_files(source.place.folder(), kRecords, whole);
}

DatasetEntry cifar10() {
  return {.name = "cifar10",
          .about = "CIFAR-10 photographs, 32x32x3, 10 classes, from its official binary files",
          .files = "CIFAR-10's official files",
          .model = "tutorial",
          .steps = 10000,
          .open = open<false>};
}

DatasetEntry cifar10_32() {
  return {.name = "cifar10_32",
          .about = "CIFAR-10 as whole images of 32x32, moved and mirrored in training",
          .files = "CIFAR-10's official files",
          .model = "resnet20",
          .steps = 64000,
          .open = open<true>};
}

}  // namespace lockstep
