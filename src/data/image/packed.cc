#include "src/data/image/packed.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/checksum.h"
#include "src/data/copies.h"
#include "src/data/image/image.h"
#include "src/data/image/photos.h"
#include "src/files/file_kind.h"
#include "src/files/hdf5_bytes.h"

namespace lockstep {
namespace {

using Bytes = std::vector<std::uint8_t>;

/// `list`: numbers or a text.
std::span<const std::uint8_t> bytes_of(const auto& list) {
  return {reinterpret_cast<const std::uint8_t*>(list.data()), list.size() * sizeof *list.data()};
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

// The index has a checksum of its own, because HDF5's contiguous arrays have none. Each image has
// one in the index. So damage ends neither in another label nor in another image.
std::uint32_t checksum_of(const PartIndices& parts, const std::string& classes,
                          std::uint64_t others) {
  std::uint32_t all = 0;
  for (const PartIndex& part : parts) {
    all = crc32c_of(part.labels, crc32c_of(part.ends, all));
    all = crc32c(part.names, crc32c_of(part.checksums, all));
  }
  return crc32c_of(std::vector{others}, crc32c(classes, all));
}

PartIndex index_of(const LabelledFiles& files) {
  PartIndex index;
  std::uint64_t end = 0;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    index.ends.push_back(end += files.bytes[i]);
    index.labels.push_back(files.labels[i]);
    index.names.append(files.names[i]).push_back('\0');
  }
  return index;
}

void write_images(Hdf5BytesWriter& writer, const std::string& part, const LabelledFiles& files,
                  PartIndex& index) {
  const auto images = encoded_images(files);
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const Bytes bytes = images->read(i);
    index.checksums.push_back(crc32c_of(bytes));
    writer.append(part + "/images", bytes);
  }
  writer.append(part + "/ends", bytes_of(index.ends));
  writer.append(part + "/labels", bytes_of(index.labels));
  writer.append(part + "/crc32c", bytes_of(index.checksums));
  writer.append(part + "/names", bytes_of(index.names));
}

/// An open file, which all parts share.
struct PackedFile : Hdf5BytesReader {
  using Hdf5BytesReader::Hdf5BytesReader;

  template <class T>
  std::vector<T> numbers(const std::string& name) const {
    const BytesArray& place = array(name, sizeof(T));
    std::vector<T> values(place.count);
    read(place, 0, {reinterpret_cast<std::uint8_t*>(values.data()), place.bytes()});
    return values;
  }
  std::string text(const std::string& name) const {
    const std::vector<std::uint8_t> bytes = numbers<std::uint8_t>(name);
    return {bytes.begin(), bytes.end()};
  }
  void check(bool good, const char* why) const {
    require(good, "{} is damaged or no file of pack_images: {}. Pack the images again.",
            path().string(), why);
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
              std::ranges::count(index.names, '\0') == std::ssize(index.ends),
          "its arrays have different lengths");
    LabelledFiles files{.folder = (path() / name).string(), .classes = classes, .packed = true};
    // The numbers are checked although their checksum is right. Another program may have written
    // both.
    std::uint64_t begin = 0;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t end = index.names.find('\0', at);
      check(index.ends[i] >= begin && index.ends[i] - begin <= kMost &&
                index.labels[i] < static_cast<std::uint32_t>(classes),
            "an image lies elsewhere or has an unknown class");
      files.add(index.names.substr(at, end - at), index.labels[i], index.ends[i] - begin);
      begin = index.ends[i];
      at = end + 1;
    }
    check(begin == array(name + "/images", 1).count, "its images have another length");
    files.checksums = index.checksums;
    return files;
  }
};

class PackedImages : public EncodedImages {
 public:
  PackedImages(std::shared_ptr<const PackedFile> file, const std::string& part, LabelledFiles files,
               std::vector<std::uint64_t> ends)
      : EncodedImages(std::move(files)),
        file_(std::move(file)),
        images_(file_->array(part + "/images", 1)),
        ends_(std::move(ends)) {}
  Bytes read(std::int64_t index) const override {
    Bytes bytes(files().bytes[index]);
    file_->read(images_, ends_[index] - bytes.size(), bytes);
    // A file that was replaced during the run is an error for all images. An unchanged one has a
    // damaged image, which a run may skip.
    if (crc32c_of(bytes) != files().checksums[index]) {
      require(std::filesystem::last_write_time(file_->path()) == time_,
              "{} has changed during the run. Restore it.", file_->path().string());
      throw DamagedImage(files().path(index), "its checksum is wrong");
    }
    return bytes;
  }

 private:
  std::shared_ptr<const PackedFile> file_;
  BytesArray images_;
  std::vector<std::uint64_t> ends_;
  const std::filesystem::file_time_type time_ = std::filesystem::last_write_time(file_->path());
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
    if (file->has(fmt::format("{}/ends", kGroups[part]))) parts[part] = file->part(kGroups[part]);
  const std::string classes = file->text("classes");
  const auto others = file->numbers<std::uint64_t>("others");
  const auto whole = file->numbers<std::uint32_t>("index_crc32c");
  file->check(
      others.size() == 1 && whole.size() == 1 && whole[0] == checksum_of(parts, classes, others[0]),
      "its checksum is wrong");
  Opened opened;
  ImageIndex& index = opened.index;
  index.classes = lines_of(classes);
  index.others = others[0];
  const int count = index.classes.size();
  file->check(count >= 2 && !parts[kTrain].ends.empty() &&
                  parts[kValidation].ends.size() + parts[kTest].ends.size() > 0,
              "it lacks classes or a part");
  for (std::size_t part = 0; part < kParts; ++part) {
    if (parts[part].ends.empty()) continue;
    index.parts[part] = file->files(kGroups[part], parts[part], count);
    opened.images[part] = std::make_shared<PackedImages>(file, kGroups[part], index.parts[part],
                                                         std::move(parts[part].ends));
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
  // All sizes are known from the search. So the file is laid out first, and one image at a time is
  // in memory.
  Hdf5BytesWriter writer(path, std::move(arrays));
  for (std::size_t part = 0; part < kParts; ++part)
    if (index.parts[part].size() > 0)
      write_images(writer, kGroups[part], index.parts[part], parts[part]);
  const std::uint64_t others = index.others;
  writer.append("classes", bytes_of(classes));
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
    // Without a size open() would refuse. The images are not resized here, so any size serves.
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
