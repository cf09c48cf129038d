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
#include "src/data/sets/images.h"
#include "src/files/file.h"

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
};

std::uint32_t big_endian(const std::uint8_t* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | bytes[i];
  return value;
}

/// A file for reading. zlib inflates it if it is compressed.
class InflatedFile {
 public:
  InflatedFile(const fs::path& path, const std::string& cure)
      : path_(path), cure_(cure), file_(gzopen(path.c_str(), "rb"), gzclose_r) {
    require(file_ != nullptr, "cannot open {}: {}. {}", path.string(),
            std::generic_category().message(errno), cure);
  }
  /// Adds up to `count` bytes to `bytes`: fewer only at the end of the file.
  void read(std::size_t count, std::vector<std::uint8_t>& bytes) {
    constexpr std::size_t kPart = 1 << 20;  // a damaged header must not allocate more than the file
    for (std::size_t part = 1; count > 0 && part > 0; count -= part) {
      const std::size_t begin = bytes.size();
      bytes.resize(begin + std::min(count, kPart));
      const int got = gzread(file_.get(), bytes.data() + begin, std::min(count, kPart));
      part = static_cast<std::size_t>(std::max(got, 0));
      bytes.resize(begin + part);
      int error = Z_OK;
      std::string what = gzerror(file_.get(), &error);
      if (error == Z_ERRNO) fail_to_read(path_, errno);
      what.erase(0, what.starts_with(path_.string() + ": ") ? path_.string().size() + 2 : 0);
      if (got < 0 || error != Z_OK)
        fail("{} cannot be read, because it is truncated or damaged ({}). {}", path_.string(), what,
             cure_);
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
          "{} is not a regular file. {}", path, cure);
  InflatedFile file(idx.path, cure);
  idx.header = 4 * (2 + rest.size());
  file.read(idx.header, idx.bytes);
  const auto magic = static_cast<std::uint32_t>(0x0800 + 1 + rest.size());
  require(idx.bytes.size() == idx.header, "{} contains {} bytes: it is truncated. {}", path,
          idx.bytes.size(), cure);
  require(big_endian(idx.bytes.data()) == magic,
          "{} begins with {:#010x}, not {:#010x}: it is not an IDX file of {}. {}", path,
          big_endian(idx.bytes.data()), magic, rest.empty() ? "labels" : "images", cure);
  idx.count = big_endian(idx.bytes.data() + 4);
  std::size_t each = 1;
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::uint32_t extent = big_endian(idx.bytes.data() + 8 + 4 * i);
    require(extent == rest[i], "{} contains images of {} {}, not {}. {}", path, extent,
            i == 0 ? "rows" : "columns", rest[i], cure);
    each *= extent;
  }
  require(idx.count > 0, "{} contains no samples. {}", path, cure);
  const std::size_t wanted = idx.header + static_cast<std::size_t>(idx.count) * each;
  file.read(wanted - idx.header + 1, idx.bytes);
  require(idx.bytes.size() >= wanted,
          "{} contains {} bytes, and its header promises {}: it is truncated. {}", path,
          idx.bytes.size(), wanted, cure);
  require(idx.bytes.size() == wanted,
          "{} continues after the {} bytes that its header promises. {}", path, wanted, cure);
  return idx;
}

/// `part`: the beginning of its files' names. `what`: "training". Adds the files to `identity`.
std::unique_ptr<Dataset> read_part(const fs::path& folder, const std::string& part,
                                   std::string_view what, const std::string& cure,
                                   std::string& identity) {
  const std::string image_file = part + "-images-idx3-ubyte",
                    label_file = part + "-labels-idx1-ubyte";
  Idx images =
      read_idx(folder, image_file, std::array<std::uint32_t, 2>{kDigitSide, kDigitSide}, cure);
  const Idx labels = read_idx(folder, label_file, {}, cure);
  require(images.count == labels.count, "{} contains {} images and {} contains {} labels. {}",
          images.path.string(), images.count, labels.path.string(), labels.count, cure);
  for (const auto& [name, file] :
       {std::pair(image_file, &std::as_const(images)), {label_file, &labels}})
    identity += fmt::format("{} = crc32c {:08x}\n", name, crc32c_of(file->bytes));
  const auto skip = [](const Idx& file) {
    return file.bytes.begin() + static_cast<std::ptrdiff_t>(file.header);
  };
  ImageStore store{kDigitFormat.size, {}, {skip(labels), labels.bytes.end()}};
  for (std::size_t i = 0; i < store.labels.size(); ++i) {
    require(store.labels[i] < kClasses,
            "{}: label {} is {}, and labels are 0 to {}: the file is damaged. {}",
            labels.path.string(), i, store.labels[i], kClasses - 1, cure);
  }
  images.bytes.erase(images.bytes.begin(), skip(images));
  store.pixels = std::move(images.bytes);
  return stored_images(
      kDigitFormat, std::move(store), kClasses,
      fmt::format("MNIST, {} {} images from {}", labels.count, what, folder.string()));
}

}  // namespace

DatasetPair open_mnist(const DataSource& source) {
  const auto& directory = source.folder;
  require(
      !directory.empty(),
      "data set mnist needs the folder of its files (--data DIR). Run scripts/get_data.sh mnist "
      "DIR first.");
  const std::string cure = download_cure("mnist", directory, kDownloaded);
  DatasetPair pair;
  pair.train = read_part(directory, "train", "training", cure, pair.identity);
  pair.test = read_part(directory, "t10k", "test", cure, pair.identity);
  for (int digit = 0; digit < kClasses; ++digit) pair.class_names.push_back(std::to_string(digit));
  return pair;
}

DatasetEntry mnist() {
  return {.name = "mnist",
          .about = "MNIST handwritten digits, 28x28x1, 10 classes, from its IDX files",
          .files = "MNIST's four files, as they are or compressed",
          .model = "deep_mnist",
          .steps = 5000,
          .open = open_mnist};
}

}  // namespace lockstep
