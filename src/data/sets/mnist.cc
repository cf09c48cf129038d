#include "src/data/sets/mnist.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <new>
#include <regex>
#include <set>
#include <span>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/text.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::int32_t kDigits = 10;
constexpr StoredSet kSet{"mnist", "@(train|t10k)-@(images-idx3|labels-idx1)-ubyte.gz?(.part)"};
/// Folders in --data in which the files may lie, as torchvision and EMNIST's archive unpack them.
constexpr std::array kPlaces{"",           "raw",        "MNIST/raw", "FashionMNIST/raw",
                             "KMNIST/raw", "EMNIST/raw", "gzip"};

/// An IDX file of bytes, whole and in memory.
struct Idx {
  fs::path path;
  std::int64_t count = 0;                // its first extent
  std::size_t header = 0;                // bytes
  std::vector<std::uint8_t> bytes = {};  // uncompressed, header and all
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
    if (!file_) fail_to_open(path, errno, cure);
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
      if (error == Z_ERRNO) fail_to_open(path_, errno, cure_);
      if (error == Z_MEM_ERROR) throw std::bad_alloc();
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

/// The four files of a data set, of those that are there.
struct Files {
  fs::path folder;
  std::string prefix = {};                     ///< of their names: "" or "emnist-letters-"
  std::map<std::string, fs::path> paths = {};  ///< by "train-images" or "t10k-labels"

  bool emnist() const { return prefix.starts_with("emnist-"); }
  /// A value of --data that stands for these files.
  std::string option() const {
    return (prefix.empty() ? folder : folder / prefix.substr(0, prefix.size() - 1)).string();
  }
  /// If there is none, its usual name.
  fs::path find(const std::string& name) const {
    if (const auto found = paths.find(name); found != paths.end()) return found->second;
    return folder / fmt::format("{}{}-idx{}-ubyte", prefix, name, name.ends_with("labels") ? 1 : 3);
  }
};

/// The data sets in `folder` by prefix. Their files are as they are or compressed, with a dash or a
/// dot in their names, or in a folder of their name.
std::map<std::string, Files> sets_in(const fs::path& folder) {
  static const std::regex kName(
      "((|.*-)(train|t10k|test)-(images|labels)[-.]idx[13]-ubyte(\\.gz)?)(/?)");
  std::map<std::string, Files> sets;
  std::error_code ignored;  // opening the files reports it
  for (const std::string& name : names_in(folder, ignored)) {
    std::smatch match;
    if (!std::regex_match(name, match, kName)) continue;
    const std::string part = match[3] == "test" ? "t10k" : match[3].str();
    sets.try_emplace(match[2], Files{folder, match[2]})
        .first->second.paths.try_emplace(part + "-" + match[4].str(),
                                         folder / (name + (match[6] == "/" ? match[1].str() : "")));
  }
  return sets;
}

/// The files that --data names: a folder, or with the name of one of its data sets at the end.
/// Throws Error if there are several.
Files find_files(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error)) {
    const auto beside = sets_in("." / directory.parent_path());
    const auto named = beside.find(directory.filename().string() + "-");
    if (named != beside.end()) return named->second;
  }
  std::vector<Files> found;
  for (const char* place : kPlaces) {
    for (const auto& [prefix, files] : sets_in(*place == 0 ? directory : directory / place))
      found.push_back(files);
    if (*place == 0 && !found.empty() && found[0].prefix.empty()) return found[0];
  }
  std::vector<std::string> options;
  for (const Files& files : found) options.push_back(files.option());
  require(found.size() <= 1, "{} contains several data sets. Pass one of them as --data: {}.",
          directory.string(), listed(options));
  return found.empty() ? Files{directory} : found[0];
}

/// An IDX file whose extents after the first are `rest`.
Idx read_idx(fs::path file_path, std::span<const std::uint32_t> rest, const std::string& cure) {
  Idx idx{std::move(file_path)};
  std::error_code ignored;
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

/// `part`: "train" or "t10k". Adds the files to `identity`.
ImageStore read_part(const Files& files, const std::string& part, const std::string& cure,
                     std::string& identity) {
  Idx images = read_idx(files.find(part + "-images"),
                        std::array<std::uint32_t, 2>{kDigitSide, kDigitSide}, cure);
  const Idx labels = read_idx(files.find(part + "-labels"), {}, cure);
  require(images.count == labels.count, "{} contains {} images and {} contains {} labels. {}",
          images.path.string(), images.count, labels.path.string(), labels.count, cure);
  identity += fmt::format(
      "{0}{1}-images-idx3-ubyte = crc32c {2:08x}\n{0}{1}-labels-idx1-ubyte = crc32c {3:08x}\n",
      files.prefix, part, crc32c_of(images.bytes), crc32c_of(labels.bytes));
  const auto skip = [](const Idx& file) {
    return file.bytes.begin() + static_cast<std::ptrdiff_t>(file.header);
  };
  ImageStore store{kDigitFormat.size, {}, {skip(labels), labels.bytes.end()}};
  images.bytes.erase(images.bytes.begin(), skip(images));
  store.pixels = std::move(images.bytes);
  for (auto image = store.pixels.begin(); files.emnist() && image != store.pixels.end();
       image += kDigitPixels) {  // EMNIST stores columns
    for (int row = 0; row < kDigitSide; ++row)
      for (int column = 0; column < row; ++column)
        std::swap(image[row * kDigitSide + column], image[column * kDigitSide + row]);
  }
  return store;
}

/// Makes labels begin with 0. Returns the names of the classes: the labels as they were, at least
/// those of the digits. Throws Error if there are gaps in the labels of another data set.
std::vector<std::string> name_classes(const std::string& files, std::vector<std::int32_t>& train,
                                      std::vector<std::int32_t>& test, const std::string& cure) {
  std::set<std::int32_t> labels(train.begin(), train.end());
  labels.insert(test.begin(), test.end());
  const std::int32_t last = std::max(*labels.rbegin(), kDigits - 1),
                     first = last >= kDigits && !labels.contains(0) ? 1 : 0;  // EMNIST's letters
  std::vector<std::string> names;
  for (std::int32_t label = first; label <= last; ++label) {
    require(last < kDigits || labels.contains(label),
            "{}: the labels go to {}, but no image has label {}. Number them without gaps. {}",
            files, last, label, cure);
    names.push_back(std::to_string(label));
  }
  for (std::vector<std::int32_t>* part : {&train, &test})
    for (std::int32_t& label : *part) label -= first;
  return names;
}

}  // namespace

DatasetPair open_mnist(const DataSource& source) {
  const Files files = find_files(source.folder);
  const std::string cure = look_into(kSet, files.folder, files.find("train-images"));
  DatasetPair pair;
  ImageStore train = read_part(files, "train", cure, pair.identity),
             test = read_part(files, "t10k", cure, pair.identity);
  pair.class_names = name_classes(files.option(), train.labels, test.labels, cure);
  if (std::ssize(pair.class_names) != kDigits && !files.emnist()) {
    pair.notes.push_back(
        "labels above 9 are not MNIST's. EMNIST's images lie on their sides unless their files "
        "have its names, such as emnist-letters-train-images-idx3-ubyte");
  }
  const auto part = [&](ImageStore& store, const char* what) {
    const auto about = fmt::format("{}, {} {} images from {}", files.emnist() ? "EMNIST" : "MNIST",
                                   store.labels.size(), what, files.option());
    return stored_images(kDigitFormat, std::move(store), static_cast<int>(pair.class_names.size()),
                         about);
  };
  pair.train = part(train, "training");
  pair.test = part(test, "test");
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
