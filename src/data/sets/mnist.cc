#include "src/data/sets/mnist.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/data/sets/download_cure.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr int kClasses = 10;
constexpr std::array<std::string_view, 4> kDownloaded{
    "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz", "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz"};

/// An IDX file of bytes, whole and in memory.
struct Idx {
  fs::path path;
  std::int64_t count = 0;           // its first extent
  std::size_t header = 0;           // bytes
  std::vector<std::uint8_t> bytes;  // uncompressed, header and all

  const std::uint8_t* values() const { return bytes.data() + header; }
};

std::uint32_t big_endian(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | bytes[i];
  return value;
}

/// A file for reading, which zlib inflates where it is compressed.
class InflatedFile {
 public:
  InflatedFile(const fs::path& path, const std::string& cure)
      : path_(path), cure_(cure), file_(gzopen(path.c_str(), "rb"), gzclose_r) {
    require(file_ != nullptr, "cannot open {}: {}; {}", path.string(),
            std::generic_category().message(errno), cure);
  }
  /// Adds up to `count` bytes to `bytes`: fewer at the end of the file alone.
  void read(std::size_t count, std::vector<std::uint8_t>& bytes) {
    constexpr std::size_t kPart = 1 << 20;  // no header makes us ask for memory that no file fills
    for (std::size_t part = 1; count > 0 && part > 0; count -= part) {
      const std::size_t begin = bytes.size();
      bytes.resize(begin + std::min(count, kPart));
      const int got = gzread(file_.get(), bytes.data() + begin, std::min(count, kPart));
      part = static_cast<std::size_t>(std::max(got, 0));
      bytes.resize(begin + part);
      int error = Z_OK;
      std::string what = gzerror(file_.get(), &error);
      if (error == Z_ERRNO) what = std::strerror(errno);
      what.erase(0, what.starts_with(path_.string() + ": ") ? path_.string().size() + 2 : 0);
      if (got < 0 || error != Z_OK)
        fail("{} cannot be read, it is truncated or damaged ({}); {}", path_.string(), what, cure_);
    }
  }

 private:
  const fs::path& path_;
  const std::string& cure_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

/// `name` in `folder`, or name.gz: an IDX file whose extents after the first are `rest`.
Idx read_idx(const fs::path& folder, const std::string& name, std::span<const std::uint32_t> rest,
             const std::string& cure) {
  Idx idx;
  std::error_code ignored;
  idx.path = folder / name;
  if (!fs::exists(idx.path, ignored) && fs::exists(folder / (name + ".gz"), ignored))
    idx.path += ".gz";
  const std::string path = idx.path.string();
  require(!fs::exists(idx.path, ignored) || fs::is_regular_file(idx.path, ignored),
          "{} is not a regular file; {}", path, cure);
  InflatedFile file(idx.path, cure);
  idx.header = 4 * (2 + rest.size());
  file.read(idx.header, idx.bytes);
  const auto magic = static_cast<std::uint32_t>(0x0800 + 1 + rest.size());
  require(idx.bytes.size() == idx.header, "{} holds {} bytes: it is truncated; {}", path,
          idx.bytes.size(), cure);
  require(big_endian(idx.bytes.data()) == magic,
          "{} begins with {:#010x} where {:#010x} is wanted: it is no IDX file of {}; {}", path,
          big_endian(idx.bytes.data()), magic, rest.empty() ? "labels" : "images", cure);
  idx.count = big_endian(idx.bytes.data() + 4);
  std::size_t each = 1;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::uint32_t extent = big_endian(idx.bytes.data() + 8 + 4 * i);
    require(extent == rest[i], "{} holds images of {} {} where {} are wanted; {}", path, extent,
            i == 0 ? "rows" : "columns", rest[i], cure);
    each *= extent;
  }
  require(idx.count > 0, "{} holds no samples; {}", path, cure);
  const std::size_t wanted = idx.header + static_cast<std::size_t>(idx.count) * each;
  file.read(wanted - idx.header + 1, idx.bytes);
  require(idx.bytes.size() >= wanted,
          "{} holds {} bytes where its header promises {}: it is truncated; {}", path,
          idx.bytes.size(), wanted, cure);
  require(idx.bytes.size() == wanted, "{} goes on after the {} bytes that its header promises; {}",
          path, wanted, cure);
  return idx;
}

class Mnist : public Dataset {
 public:
  /// `part`: how the names of its files begin; `what`: "training".
  Mnist(const fs::path& folder, const std::string& part, std::string_view what,
        const std::string& cure)
      : Dataset(kDigitFormat) {
    const std::string image_file = part + "-images-idx3-ubyte",
                      label_file = part + "-labels-idx1-ubyte";
    images_ =
        read_idx(folder, image_file, std::array<std::uint32_t, 2>{kDigitSide, kDigitSide}, cure);
    labels_ = read_idx(folder, label_file, {}, cure);
    require(images_.count == labels_.count, "{} holds {} images and {} holds {} labels; {}",
            images_.path.string(), images_.count, labels_.path.string(), labels_.count, cure);
    for (std::int64_t i = 0; i < labels_.count; ++i) {
      require(label(i) < kClasses,
              "{}: label {} is {}, and labels are 0 to {}: the file is damaged; {}",
              labels_.path.string(), i, label(i), kClasses - 1, cure);
    }
    about_ = fmt::format("MNIST, {} {} images from {}", size(), what, folder.string());
    for (const auto& [name, file] : {std::pair(image_file, &images_), {label_file, &labels_}}) {
      const std::string_view all(reinterpret_cast<const char*>(file->bytes.data()),
                                 file->bytes.size());
      identity_ += fmt::format("{} = crc32c {:08x}\n", name, crc32c(all));
    }
  }

  std::int64_t size() const override { return images_.count; }
  int classes() const override { return kClasses; }
  std::int32_t label(std::int64_t index) const override { return labels_.values()[index]; }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t*) const override {
    return images_.values() + index * kDigitPixels;
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override { return images_.bytes.size() + labels_.bytes.size(); }
  const std::string& identity() const { return identity_; }

 private:
  Idx images_, labels_;
  std::string about_, identity_;
};

}  // namespace

DatasetPair open_mnist(const fs::path& directory, std::uint64_t /*seed*/) {
  require(!directory.empty(),
          "data set mnist needs the folder of its files (--data DIR); scripts/get_data.sh mnist "
          "DIR downloads them");
  const std::string cure = download_cure("mnist", directory, kDownloaded);
  auto train = std::make_unique<Mnist>(directory, "train", "training", cure);
  auto test = std::make_unique<Mnist>(directory, "t10k", "test", cure);
  DatasetPair pair;
  pair.identity = train->identity() + test->identity();
  pair.train = std::move(train);
  pair.test = std::move(test);
  for (int digit = 0; digit < kClasses; ++digit) pair.class_names.push_back(std::to_string(digit));
  return pair;
}

DatasetEntry mnist() {
  return {.name = "mnist",
          .about = "MNIST handwritten digits, 28x28x1, 10 classes, from its IDX files",
          .files = "MNIST's four files, as they are or compressed",
          .stands_for = "",
          .model = "deep_mnist",
          .steps = 5000,
          .open = open_mnist};
}

}  // namespace lockstep
