#include "src/data/image/image_index.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/read_in_parallel.h"
#include "src/data/validation.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabelledFiles, folder, names, labels, classes, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageIndex, classes, parts, others)

namespace {

namespace fs = std::filesystem;

/// A file of a part that cannot be read.
struct Damage {
  int part = 0;
  std::int64_t place = 0;
  std::string why;

  bool operator<(const Damage& other) const {
    return std::pair(part, place) < std::pair(other.part, other.place);
  }
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Damage, part, place, why)

/// What a rank has found in its share of the files.
struct Checked {
  std::vector<Damage> damage;
  std::vector<std::uint32_t> checksums;  ///< of all parts, one after the other; damaged: 0
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Checked, damage, checksums)

template <class T>
std::string packed(const T& object) {  // CBOR, because names of files need not be UTF-8
  std::string text;
  nlohmann::json::to_cbor(nlohmann::json(object), text);
  return text;
}

template <class T>
T unpacked(const std::string& text) {
  return nlohmann::json::from_cbor(text).get<T>();
}

std::vector<std::string> classes_without(const LabelledFiles& files,
                                         const std::vector<std::string>& classes) {
  std::vector<bool> used(classes.size());
  for (const std::int32_t label : files.labels) used[label] = true;
  std::vector<std::string> empty;
  for (std::size_t i = 0; i < classes.size(); ++i)
    if (!used[i]) empty.push_back(classes[i]);
  return empty;
}

/// Each part needs images of each class, but few images may give none to `share` of them.
void require_all_classes(ImageIndex& index, double share) {
  const LabelledFiles& validation = index.parts[kValidation];
  const bool divided = share > 0 && !validation.folder.empty();
  require(!divided || validation.size() > 0,
          "--validation {:g} takes none of {} training images. Pass a larger share.", share,
          index.parts[kTrain].size());
  for (const LabelledFiles& part : index.parts) {
    if (part.folder.empty()) continue;
    const std::vector<std::string> empty = classes_without(part, index.classes);
    if (empty.empty()) continue;
    if (divided && &part == &validation) {
      index.notes.push_back(fmt::format("the validation set has no images of {}", listed(empty)));
      continue;
    }
    const bool rest = divided && &part == &index.parts[kTrain];
    fail("{}/{} contains no images{}. Add images{}, or move the class to another folder.",
         part.folder, empty[0], rest ? " for training" : "",
         rest ? ", pass a smaller --validation" : "");
  }
}

/// The image files of all classes; `others` counts the other files.
LabelledFiles files_in(const fs::path& folder, const std::vector<std::string>& classes, int threads,
                       std::int64_t& others) {
  std::vector<std::vector<FoundFile>> found(classes.size());
  read_in_parallel(threads, std::ssize(classes), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) found[i] = files_of_class(folder / classes[i]);
  });
  LabelledFiles files{.folder = folder.string(), .classes = static_cast<int>(classes.size())};
  for (std::size_t label = 0; label < classes.size(); ++label) {
    for (const FoundFile& file : std::exchange(found[label], {})) {
      if (has_image_name(file.name)) {
        files.add(classes[label] + "/" + file.name, static_cast<std::int32_t>(label), file.bytes);
      } else {
        ++others;
      }
    }
  }
  return files;
}

/// The sub-folder `name` of `folder`; empty if there is none.
fs::path part_of(const fs::path& folder, const char* name) {
  std::error_code unreadable;
  return fs::is_directory(folder / name, unreadable) ? folder / name : fs::path();
}

/// Moves `share` of the training files to the validation files, by their names.
void divide(double share, ImageIndex& index) {
  LabelledFiles all = std::move(index.parts[kTrain]);
  for (const SetPart part : {kTrain, kValidation})
    index.parts[part] = {.folder = all.folder, .classes = all.classes};
  for (std::int64_t i = 0; i < all.size(); ++i) {
    const SetPart part = number_of(all.names[i]) < share ? kValidation : kTrain;
    index.parts[part].add(std::move(all.names[i]), all.labels[i], all.bytes[i]);
  }
}

ImageIndex read_folders(const DataSource& source) {
  const fs::path &folder = source.folder, divided = part_of(folder, "train"),
                 validation = part_of(folder, "val"), test = part_of(folder, "test"),
                 train = divided.empty() ? folder : divided;
  const double share = source.validation;
  if (divided.empty() && share <= 0)
    fail_usage("{} has no train/. Pass --validation 0.1 to divide its classes.", folder.string());
  if (!divided.empty() && !validation.empty() && share > 0)
    fail_usage("{} has val/, and --validation makes another one. Omit it.", folder.string());
  require(divided.empty() || share > 0 || !validation.empty() || !test.empty(),
          "{} has train/, but neither val/ nor test/. Add one of them, or pass --validation 0.1.",
          folder.string());
  ImageIndex index;
  index.classes = class_names(train);
  index.parts[kTrain] = files_in(train, index.classes, source.threads, index.others);
  if (share > 0) divide(share, index);
  if (divided.empty()) return index;
  for (const auto& [part, of] : {std::pair(kValidation, validation), {kTest, test}}) {
    if (of.empty()) continue;
    require_same_classes(train, index.classes, of, class_names(of));
    index.parts[part] = files_in(of, index.classes, source.threads, index.others);
  }
  return index;
}

ImageIndex read_test_folders(const DataSource& source) {
  const fs::path &folder = source.folder, tests = part_of(folder, "test"),
                 validation = part_of(folder, "val"), held = tests.empty() ? validation : tests;
  if (held.empty() && source.validation > 0) {
    ImageIndex index = read_folders(source);
    index.parts[kTrain] = {};
    return index;
  }
  require(!held.empty(), "{} has neither val/ nor test/. Pass a folder with one of them.",
          folder.string());
  ImageIndex index;
  index.classes = class_names(held, 1);
  index.parts[tests.empty() ? kValidation : kTest] =
      files_in(held, index.classes, source.threads, index.others);
  return index;
}

/// This rank's share of the check. Throws Error if a file cannot be read now, because without it
/// the run would train on other images than later.
Checked check_files(const ImageIndex& index, const DataSource& source) {
  const std::int64_t all = index.size(), first = all * source.host.rank / source.host.count,
                     last = all * (source.host.rank + 1) / source.host.count;
  Checked checked{{}, std::vector<std::uint32_t>(last - first)};
  std::vector<Damage>& damage = checked.damage;
  std::mutex mutex;
  const auto check = [&](std::int64_t number) {
    int part = 0;
    std::int64_t place = number;
    for (; place >= index.parts[part].size(); ++part) place -= index.parts[part].size();
    const auto add = [&](const std::string& why) {
      const std::lock_guard lock(mutex);
      damage.push_back({part, place, why});
    };
    try {
      checked.checksums[number - first] =
          check_image(index.parts[part].path(place), source.images.check == "decode");
    } catch (const DamagedImage& error) {
      add(error.why());
    } catch (const MissingImage& error) {
      add(error.what());
    }
  };
  read_in_parallel(source.threads, last - first, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = first + begin; i < first + end; ++i) {
      check(i);
      source.host.progress();
    }
  });
  std::sort(damage.begin(), damage.end());
  return checked;
}

/// "3 of 900 image files cannot be read: cat/a.jpg (it is empty), ..."
std::string text_of(const std::vector<Damage>& damage, const ImageIndex& index) {
  std::vector<std::string> names;
  for (const Damage& file : damage) {
    const std::string path = index.parts[file.part].path(file.place);
    names.push_back(one_line(fmt::format("{} ({})", path, file.why)));
  }
  return fmt::format("{} of {} image files cannot be read: {}", damage.size(), index.size(),
                     listed(names));
}

void remove(const std::vector<Damage>& damage, ImageIndex& index) {
  auto next = damage.begin();
  for (int part = 0; part < static_cast<int>(kParts); ++part) {
    LabelledFiles& files = index.parts[part];
    LabelledFiles kept{.folder = files.folder, .classes = files.classes};
    for (std::int64_t i = 0; i < files.size(); ++i) {
      if (next != damage.end() && next->part == part && next->place == i) {
        ++next;
      } else {
        kept.add(std::move(files.names[i]), files.labels[i], files.bytes[i]);
        kept.checksums.push_back(files.checksums[i]);
      }
    }
    files = std::move(kept);
  }
}

/// Collective among the ranks of a host. `read` reads the folders on one of them.
template <class Read>
ImageIndex find(const DataSource& source, const Read& read) {
  const HostRanks& host = source.host;
  const auto first =
      host.gather([&] { return host.rank == 0 ? packed(read(source)) : std::string(); });
  ImageIndex index;
  std::vector<Damage> damage;
  const auto find_mine = [&] {  // within gather(), which tells the other ranks if memory is short
    index = unpacked<ImageIndex>(first[0]);
    return packed(check_files(index, source));
  };
  std::vector<std::uint32_t> checksums;
  for (const std::string& found : host.gather(find_mine)) {
    const auto more = unpacked<Checked>(found);
    damage.insert(damage.end(), more.damage.begin(), more.damage.end());
    checksums.insert(checksums.end(), more.checksums.begin(), more.checksums.end());
  }
  auto next = checksums.begin();
  for (LabelledFiles& part : index.parts) {
    part.checksums.assign(next, next + part.size());
    next += part.size();
  }
  if (!damage.empty()) {
    const std::string text = text_of(damage, index);
    require(source.images.skip_damaged,
            "{}. Replace them, or pass --skip-damaged to train without them.", text);
    index.notes.push_back(text + ". They are left out.");
    remove(damage, index);
  }
  require_all_classes(index, source.validation);
  return index;
}

std::string identity_of(const char* part, const LabelledFiles& files) {
  std::string all;
  for (std::int64_t i = 0; i < files.size(); ++i)
    all += fmt::format("{} {}\n", files.names[i], files.bytes[i]);
  std::string text = fmt::format("{} image files = {}, crc32c of names and sizes {:08x}\n", part,
                                 files.names.size(), crc32c(all));
  if (files.checksums.empty()) return text;
  // In the order of the names. Early checkpoints have no such line.
  const std::string_view bytes(reinterpret_cast<const char*>(files.checksums.data()),
                               files.checksums.size() * sizeof(std::uint32_t));
  return text + fmt::format("{} {} = crc32c {:08x}\n", part,
                            files.packed ? kPackedContents : kFileContents, crc32c(bytes));
}

}  // namespace

void LabelledFiles::add(std::string name, std::int32_t label, std::uint64_t count) {
  names.push_back(std::move(name));
  labels.push_back(label);
  bytes.push_back(count);
}

std::int64_t ImageIndex::size() const {
  std::int64_t all = 0;
  for (const LabelledFiles& part : parts) all += part.size();
  return all;
}

std::string ImageIndex::identity() const {
  std::string text;
  for (std::size_t part = 0; part < kParts; ++part)
    if (parts[part].size() > 0) text += identity_of(kPartNames[part], parts[part]);
  if (parts[kTrain].size() > 0) text += fmt::format("classes = {}\n", fmt::join(classes, ", "));
  return text;
}

bool has_image_name(const fs::path& file) {
  static const std::set<std::string> kNames{".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"};
  std::string end = file.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return kNames.contains(end);
}

ImageIndex find_images(const DataSource& source) { return find(source, read_folders); }

ImageIndex find_test_images(const DataSource& source, const TrainedImages& trained) {
  ImageIndex index = find(source, read_test_folders);
  for (LabelledFiles& part : index.parts) {
    if (part.size() == 0) continue;
    require_known_classes(part.folder, index.classes, trained.class_names);
    relabel(part.labels, index.classes, trained.class_names);
    part.classes = static_cast<int>(trained.class_names.size());
  }
  return index;
}

}  // namespace lockstep
