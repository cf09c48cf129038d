#include "src/data/image/packed.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/text.h"
#include "src/data/copies.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/image/photos.h"
#include "src/files/file_kind.h"
#include "src/files/hdf5_bytes.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

std::uint32_t checksum(std::span<const std::uint8_t> bytes, std::uint32_t before = 0) {
  return crc32c({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, before);
}

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  Bytes bytes(numbers.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// The arrays of a part besides its images.
struct PartIndex {
  std::vector<std::uint64_t> ends;
  std::vector<std::uint32_t> labels, checksums;
  std::string names;
};

using PartIndices = std::array<PartIndex, kParts>;

/// The names of the parts in a file.
constexpr std::array<const char*, kParts> kGroups{"train", "val", "test"};

std::uint32_t checksum_of(const PartIndices& parts, const std::string& classes,
                          std::uint64_t others) {
  std::uint32_t all = 0;
  for (const PartIndex& part : parts) {
    for (const Bytes& more : {bytes_of(part.ends), bytes_of(part.labels), bytes_of(part.checksums)})
      all = checksum(more, all);
    all = crc32c(part.names, all);
  }
  return checksum(bytes_of(std::vector{others}), crc32c(classes, all));
}

PartIndex index_of(const LabelledFiles& files) {
  PartIndex index;
  std::uint64_t end = 0;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    index.ends.push_back(end += files.bytes[i]);
    index.labels.push_back(static_cast<std::uint32_t>(files.labels[i]));
    index.names.append(files.names[i]).push_back('\0');
  }
  return index;
}

void write_images(Hdf5BytesWriter& writer, const std::string& part, const LabelledFiles& files,
                  PartIndex& index) {
  const auto images = encoded_images(files);
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const Bytes bytes = images->read(i);
    index.checksums.push_back(checksum(bytes));
    writer.append(part + "/images", bytes);
  }
  writer.append(part + "/ends", bytes_of(index.ends));
  writer.append(part + "/labels", bytes_of(index.labels));
  writer.append(part + "/crc32c", bytes_of(index.checksums));
  writer.append(part + "/names", Bytes(index.names.begin(), index.names.end()));
}

/// An open file, which both parts share.
struct PackedFile {
  explicit PackedFile(const std::filesystem::path& path) : reader(path) {}

  template <class T>
  std::vector<T> numbers(const std::string& name) const {
    const BytesArray& array = reader.array(name, sizeof(T));
    std::vector<T> values(array.count);
    reader.read(array, 0, {reinterpret_cast<std::uint8_t*>(values.data()), array.bytes()});
    return values;
  }
  std::string text(const std::string& name) const {
    const std::vector<std::uint8_t> bytes = numbers<std::uint8_t>(name);
    return {bytes.begin(), bytes.end()};
  }
  void check(bool good, const char* why) const {
    require(good, "{} is damaged or no file of pack_images: {}. Pack the images again.",
            reader.path().string(), why);
  }
  PartIndex part(const std::string& name) const {
    return {numbers<std::uint64_t>(name + "/ends"), numbers<std::uint32_t>(name + "/labels"),
            numbers<std::uint32_t>(name + "/crc32c"), text(name + "/names")};
  }
  /// The files of a part. Throws Error if its index contradicts itself.
  LabelledFiles files(const std::string& name, const PartIndex& index, int classes) const {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    const std::size_t count = index.ends.size();
    check(index.labels.size() == count && index.checksums.size() == count && count < UINT32_MAX &&
              std::count(index.names.begin(), index.names.end(), '\0') == std::ssize(index.ends),
          "its arrays have different lengths");
    LabelledFiles files{
        .folder = (reader.path() / name).string(), .classes = classes, .packed = true};
    std::uint64_t begin = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = index.names.find('\0', at);
      check(index.ends[i] >= begin && index.ends[i] - begin <= kMost &&
                index.labels[i] < static_cast<std::uint32_t>(classes),
            "an image lies elsewhere or has an unknown class");
      files.add(index.names.substr(at, end - at), static_cast<std::int32_t>(index.labels[i]),
                index.ends[i] - begin);
      begin = index.ends[i];
      at = end + 1;
    }
    check(begin == reader.array(name + "/images", 1).count, "its images have another length");
    return files;
  }

  Hdf5BytesReader reader;
};

class PackedImages : public EncodedImages {
 public:
  PackedImages(std::shared_ptr<const PackedFile> file, const std::string& part, LabelledFiles files,
               PartIndex index)
      : file_(std::move(file)),
        images_(file_->reader.array(part + "/images", 1)),
        files_(std::move(files)),
        index_(std::move(index)) {
    index_.names = {};
  }
  std::int64_t size() const override { return files_.size(); }
  std::int32_t label(std::int64_t index) const override { return files_.labels[index]; }
  std::string name(std::int64_t index) const override { return files_.path(index); }
  std::uint64_t fingerprint(std::int64_t index) const override { return files_.fingerprint(index); }
  Bytes read(std::int64_t index) const override {
    Bytes bytes(files_.bytes[index]);
    file_->reader.read(images_, index_.ends[index] - bytes.size(), bytes);
    if (checksum(bytes) != index_.checksums[index]) {
      require(std::filesystem::last_write_time(file_->reader.path()) == time_,
              "{} has changed during the run. Restore it.", file_->reader.path().string());
      throw DamagedImage(name(index), "its checksum is wrong");
    }
    return bytes;
  }
  const char* full_check() const override { return "pack_images --check-images decode"; }
  std::size_t memory() const override {
    std::size_t total = files_.names.size() * (sizeof(std::string) + 28);
    for (const std::string& name : files_.names) total += name.capacity();
    return total;
  }

 private:
  std::shared_ptr<const PackedFile> file_;
  BytesArray images_;
  LabelledFiles files_;
  PartIndex index_;
  const std::filesystem::file_time_type time_ =
      std::filesystem::last_write_time(file_->reader.path());
};

/// The whole file. Each rank reads the index, because one file is fast.
struct Opened {
  ImageIndex index;
  PartImages images;
};

Opened open(const DataSource& source) {
  require(!source.place.folder().empty(), "data set packed needs its file. Pass --data FILE.h5.");
  if (source.images.size == 0)
    fail_usage("data set packed has images of any size. Pass --image-size.");
  if (source.validation.any())
    fail_usage("{}: pack_images divides the images. Omit it.", source.validation.text());
  require_kind(source.place.folder(), kPackedFile);
  const auto file = std::make_shared<PackedFile>(source.place.folder());
  PartIndices parts;
  for (std::size_t part = 0; part < kParts; ++part)
    if (file->reader.has(fmt::format("{}/ends", kGroups[part])))
      parts[part] = file->part(kGroups[part]);
  const std::string classes = file->text("classes");
  const auto others = file->numbers<std::uint64_t>("others");
  const auto whole = file->numbers<std::uint32_t>("index_crc32c");
  file->check(
      others.size() == 1 && whole.size() == 1 && whole[0] == checksum_of(parts, classes, others[0]),
      "its checksum is wrong");
  Opened opened;
  ImageIndex& index = opened.index;
  index.classes = lines_of(classes);
  index.others = static_cast<std::int64_t>(others[0]);
  const int count = static_cast<int>(index.classes.size());
  file->check(count >= 2 && !parts[kTrain].ends.empty() &&
                  parts[kValidation].ends.size() + parts[kTest].ends.size() > 0,
              "it lacks classes or a part");
  for (std::size_t part = 0; part < kParts; ++part) {
    if (parts[part].ends.empty()) continue;
    index.parts[part] = file->files(kGroups[part], parts[part], count);
    index.parts[part].checksums = parts[part].checksums;
    opened.images[part] = std::make_shared<PackedImages>(file, kGroups[part], index.parts[part],
                                                         std::move(parts[part]));
  }
  return opened;
}

}  // namespace

std::uint64_t pack_images(const DataSource& source, const std::filesystem::path& path,
                          std::vector<std::string>& notes) {
  const ImageIndex index = find_images(source);
  OpenedData sets = photo_files(index, source, nullptr);
  note_copies(sets, source.host.progress);
  notes = std::move(sets.notes);
  PartIndices parts;
  std::string classes;
  for (const std::string& name : index.classes) classes += name + "\n";
  std::vector<BytesArray> arrays{
      {"classes", classes.size()}, {"others", 1, 8}, {"index_crc32c", 1, 4}};
  std::uint64_t bytes = 0;
  for (std::size_t part = 0; part < kParts; ++part) {
    if (index.parts[part].size() == 0) continue;
    parts[part] = index_of(index.parts[part]);
    const std::string group = fmt::format("{}/", kGroups[part]);
    const std::size_t count = parts[part].ends.size();
    bytes += parts[part].ends.back();
    arrays.push_back({group + "images", parts[part].ends.back()});
    arrays.push_back({group + "ends", count, 8});
    arrays.push_back({group + "labels", count, 4});
    arrays.push_back({group + "crc32c", count, 4});
    arrays.push_back({group + "names", parts[part].names.size()});
  }
  Hdf5BytesWriter writer(path, std::move(arrays));
  for (std::size_t part = 0; part < kParts; ++part)
    if (index.parts[part].size() > 0)
      write_images(writer, kGroups[part], index.parts[part], parts[part]);
  const auto others = static_cast<std::uint64_t>(index.others);
  writer.append("classes", Bytes(classes.begin(), classes.end()));
  writer.append("others", bytes_of(std::vector{others}));
  writer.append("index_crc32c", bytes_of(std::vector{checksum_of(parts, classes, others)}));
  writer.commit();
  return bytes;
}

OpenedData open_packed(const DataSource& source) {
  Opened opened = open(source);
  return photo_sets(std::move(opened.index), std::move(opened.images), source, nullptr);
}

OpenedData open_test_packed(const DataSource& source, const DataOfCheckpoint& trained) {
  Opened opened = open(source);
  ImageIndex& index = opened.index;
  require(index.classes == trained.class_names,
          "{} has other classes than the checkpoint. Pass the images that it was trained on.",
          source.place.folder().string());
  const std::int64_t all = index.size();
  index.parts[kTrain] = {};
  if (opened.images[kTest]) index.parts[kValidation] = {};
  index.notes.push_back(fmt::format("{} of {} images in {} are evaluated: its {} images",
                                    index.size(), all, source.place.folder().string(),
                                    kPartNames[opened.images[kTest] ? kTest : kValidation]));
  return photo_sets(std::move(index), std::move(opened.images), source, &trained);
}

namespace {

std::int64_t usual_edge_of(const std::filesystem::path& file) {
  try {
    return usual_edge(*open({.place = {{file}}, .images = {.size = 1}}).images[kTrain]);
  } catch (const Error&) {  // opening the data set reports it
    return 0;
  }
}

}  // namespace

DatasetEntry packed() {
  return {.name = "packed",
          .about = "your own images in one file, which pack_images writes",
          .files = "packed images, as a file of pack_images",
          .model = "resnet20",
          .steps = 10000,
          .open = open_packed,
          .own = true,
          .open_test = open_test_packed,
          .resizes = true,
          .usual_edge = usual_edge_of,
          .one_file = true};
}

}  // namespace lockstep
