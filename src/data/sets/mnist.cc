#include "src/data/sets/mnist.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <new>
#include <regex>
#include <set>
#include <system_error>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/checksum.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::int32_t kDigits = 10;
constexpr std::int64_t kMostLabels = 1 << 26;
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

/// Fills `bytes` up to `count` from `file`, which zlib inflates if it is compressed: fewer only at
/// its end. `path` and `advice`: for errors.
void read_up_to(std::size_t count, gzFile file, const fs::path& path, const std::string& advice,
                std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t kPart = 1 << 20;  // a damaged header must not allocate more than the file
  // gzread() returns 0 at the end of the file, and also reads files that are not compressed.
  // Truncated data show only in gzerror().
  for (int got = 1; bytes.size() < count && got > 0;) {
    const std::size_t begin = bytes.size(), part = std::min(count - begin, kPart);
    bytes.resize(begin + part);
    got = gzread(file, bytes.data() + begin, part);
    bytes.resize(begin + std::max(got, 0));
    int error = Z_OK;
    std::string what = gzerror(file, &error);
    if (error == Z_ERRNO) fail_to_open(path, errno, advice);
    if (error == Z_MEM_ERROR) throw std::bad_alloc();
    what.erase(0, what.starts_with(path.string() + ": ") ? path.string().size() + 2 : 0);
    require(error == Z_OK, "{} cannot be read, because it is truncated or damaged ({}). {}",
            path.string(), what, advice);
  }
}

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
  /// If there is none, its official name.
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
    const fs::path parent = directory.parent_path();
    const auto beside = sets_in(parent.empty() ? "." : parent);
    const auto named = beside.find(directory.filename().string() + "-");
    if (named != beside.end()) return named->second;
  }
  std::vector<Files> found;
  // Official names in the folder itself win. Otherwise a folder with several sets is ambiguous.
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

/// A file of labels, or with `labels` that of their images.
Idx read_idx(fs::path file_path, const Idx* labels, const std::string& advice) {
  Idx idx{std::move(file_path)};
  std::error_code ignored;
  const std::string path = idx.path.string();
  require(!fs::exists(idx.path, ignored) || fs::is_regular_file(idx.path, ignored),
          "{} is not a regular file. {}", path, advice);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose_r);
  if (!file) fail_to_open(path, errno, advice);
  const auto read = [&](std::size_t count) {
    read_up_to(count, file.get(), path, advice, idx.bytes);
  };
  const std::uint32_t extents = labels ? 3 : 1, magic = 0x0800 + extents;
  idx.header = 4 * (1 + extents);
  read(idx.header);
  require(idx.bytes.size() == idx.header, "{} contains {} bytes: it is truncated. {}", path,
          idx.bytes.size(), advice);
  require(big_endian(idx.bytes.data()) == magic,
          "{} begins with {:#010x}, not {:#010x}: it is not an IDX file of {}. {}", path,
          big_endian(idx.bytes.data()), magic, labels ? "images" : "labels", advice);
  idx.count = big_endian(idx.bytes.data() + 4);
  for (std::size_t i = 2; i <= extents; ++i) {
    const std::uint32_t extent = big_endian(idx.bytes.data() + 4 * i);
    require(extent == kDigitSide, "{} contains images of {} {}, not {}. {}", path, extent,
            i == 2 ? "rows" : "columns", kDigitSide, advice);
  }
  require(idx.count > 0, "{} contains no samples. {}", path, advice);
  // Before the bytes are inflated: a few of a damaged file may become gigabytes.
  if (labels == nullptr) {
    require(idx.count <= kMostLabels, "{} promises {} labels, and the limit is {}. {}", path,
            idx.count, kMostLabels, advice);
  } else if (idx.count != labels->count) {
    fail("{} contains {} images and {} contains {} labels. {}", path, idx.count,
         labels->path.string(), labels->count, advice);
  }
  const std::size_t wanted = idx.header + idx.count * (labels ? kDigitPixels : 1);
  // One byte more shows whether the file goes on after its header's promise.
  read(wanted + 1);
  require(idx.bytes.size() >= wanted,
          "{} contains {} bytes, and its header promises {}: it is truncated. {}", path,
          idx.bytes.size(), wanted, advice);
  require(idx.bytes.size() == wanted,
          "{} continues after the {} bytes that its header promises. {}", path, wanted, advice);
  return idx;
}

/// `part`: "train" or "t10k". Adds the files to `identity`.
ImageStore read_part(const Files& files, const std::string& part, const std::string& advice,
                     std::string& identity) {
  const Idx labels = read_idx(files.find(part + "-labels"), nullptr, advice);
  Idx images = read_idx(files.find(part + "-images"), &labels, advice);
  identity += fmt::format(
      "{0}{1}-images-idx3-ubyte = crc32c {2:08x}\n{0}{1}-labels-idx1-ubyte = crc32c {3:08x}\n",
      files.prefix, part, crc32c_of(images.bytes), crc32c_of(labels.bytes));
  const auto skip = [](const Idx& file) { return file.bytes.begin() + file.header; };
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
                                      std::vector<std::int32_t>& test, const std::string& advice) {
  std::set<std::int32_t> labels(train.begin(), train.end());
  labels.insert(test.begin(), test.end());
  // Digits may lack a class, such as a small part of MNIST. So they always have ten.
  const std::int32_t last = std::max(*labels.rbegin(), kDigits - 1),
                     first = last >= kDigits && !labels.contains(0) ? 1 : 0;  // EMNIST's letters
  std::vector<std::string> names;
  for (std::int32_t label = first; label <= last; ++label) {
    require(last < kDigits || labels.contains(label),
            "{}: the labels go to {}, but no image has label {}. Number them without gaps. {}",
            files, last, label, advice);
    names.push_back(std::to_string(label));
  }
  for (std::vector<std::int32_t>* part : {&train, &test})
    for (std::int32_t& label : *part) label -= first;
  return names;
}

}  // namespace

OpenedData open_mnist(const DataSource& source) {
  const Files files = find_files(source.place.folder());
  const std::string advice =
      look_into("mnist", "@(train|t10k)-@(images-idx3|labels-idx1)-ubyte.gz?(.part)", files.folder,
                files.paths.empty() ? files.find("train-images") : files.paths.begin()->second);
  OpenedData pair;
  ImageStore train = read_part(files, "train", advice, pair.identity),
             test = read_part(files, "t10k", advice, pair.identity);
  pair.class_names = name_classes(files.option(), train.labels, test.labels, advice);
  if (std::ssize(pair.class_names) != kDigits && !files.emnist()) {
    pair.notes.push_back(
        "labels above 9 are not MNIST's. EMNIST's images lie on their sides unless their files "
        "have its names, such as emnist-letters-train-images-idx3-ubyte");
  }
  const auto part = [&](ImageStore& store, const char* what) {
    const auto about = fmt::format("{}, {} {} images from {}", files.emnist() ? "EMNIST" : "MNIST",
                                   store.labels.size(), what, files.option());
    return std::make_unique<StoredImages>(kDigitFormat, std::move(store), pair.class_names.size(),
                                          about);
  };
  pair.train = part(train, "training");
  pair.test = part(test, "test");
  return pair;
}

DatasetEntry mnist() {
  return {.name = "mnist",
          .about = "MNIST, Fashion-MNIST, KMNIST or EMNIST, 28x28x1, from its IDX files",
          .files = "the four IDX files of MNIST, Fashion-MNIST, KMNIST or EMNIST",
          .model = "deep_mnist",
          .steps = 5000,
          .open = open_mnist};
}

}  // namespace lockstep
