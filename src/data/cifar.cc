#include "src/data/cifar.h"

#include <fstream>
#include <utility>

#include "src/data/distort.h"
#include "src/data/mapped_file.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;
constexpr std::int64_t kRecords = 10000;
constexpr const char* kDownload = "scripts/get_data.sh cifar10 downloads the data set";
constexpr const char* kDownloadAgain = "scripts/get_data.sh cifar10 downloads the data set anew";

class Cifar10 : public Dataset {
 public:
  Cifar10(const std::filesystem::path& directory, const std::vector<std::string>& names,
          std::int64_t records, std::string about)
      : records_(records), about_(std::move(about)) {
    const auto bytes = static_cast<std::size_t>(records * kCifarRecordBytes);
    for (const std::string& name : names) {
      const auto path = directory / name;
      files_.emplace_back(path, bytes, std::filesystem::exists(path) ? kDownloadAgain : kDownload);
      const std::uint8_t* record = files_.back().data();
      for (std::int64_t i = 0; i < records; ++i, record += kCifarRecordBytes) {
        if (*record >= kClasses) {
          fail("{}: record {} has label {}, and labels are 0 to {}: the file is damaged; {}",
               path.string(), i, *record, kClasses - 1, kDownloadAgain);
        }
      }
    }
  }

  std::int64_t size() const override { return records_ * static_cast<std::int64_t>(files_.size()); }
  int classes() const override { return kClasses; }
  Shape sample_shape() const override { return crop_shape(); }
  std::int32_t label(std::int64_t index) const override { return *record(index); }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    read_image(record(index) + 1, random, out, type);
  }
  std::string describe() const override { return about_; }

 private:
  const std::uint8_t* record(std::int64_t index) const {
    return files_[index / records_].data() + index % records_ * kCifarRecordBytes;
  }

  std::vector<MappedFile> files_;
  std::int64_t records_;
  std::string about_;
};

/// One name a line; empty lines do not count.
std::vector<std::string> read_class_names(const std::filesystem::path& path) {
  std::ifstream file(path);
  require(file.good(), "cannot open {}; {}", path.string(), kDownload);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) names.push_back(line);
  }
  require(names.size() == kClasses, "{} holds {} class names where {} are wanted; {}",
          path.string(), names.size(), kClasses, kDownloadAgain);
  return names;
}

}  // namespace

DatasetPair open_cifar10_files(const std::filesystem::path& directory, std::int64_t records) {
  require(!directory.empty(), "data set cifar10 needs the folder of its files (--data DIR); {}",
          kDownload);
  require(std::filesystem::is_directory(directory), "{} is not a directory; {}", directory.string(),
          kDownload);
  const auto unpacked = directory / "cifar-10-batches-bin";
  const auto folder = std::filesystem::is_directory(unpacked) ? unpacked : directory;
  std::vector<std::string> batches;
  for (int i = 1; i <= 5; ++i) batches.push_back(fmt::format("data_batch_{}.bin", i));
  const auto about = [&](std::int64_t images, const char* part) {
    return fmt::format("CIFAR-10, {} {} images from {}", images, part, folder.string());
  };
  DatasetPair pair;
  pair.train = std::make_unique<Cifar10>(folder, batches, records, about(records * 5, "training"));
  pair.test = std::make_unique<Cifar10>(folder, std::vector<std::string>{"test_batch.bin"}, records,
                                        about(records, "test"));
  pair.class_names = read_class_names(folder / "batches.meta.txt");
  return pair;
}

DatasetPair open_cifar10(const std::filesystem::path& directory, std::uint64_t /*seed*/) {
  return open_cifar10_files(directory, kRecords);
}

}  // namespace lockstep
