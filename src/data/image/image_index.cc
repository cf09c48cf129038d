#include "src/data/image/image_index.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/read_in_parallel.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabelledFiles, folder, names, labels, classes, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageIndex, classes, parts, others, kinds, notes)

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

/// The result of a rank for its share of the files.
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

/// "2 .psd files left out. Convert them to JPEG or PNG.": images that are not read, by their kinds.
std::vector<std::string> left_out(const ImageIndex& index) {
  std::vector<std::string> texts;
  for (const auto& [ending, count] : index.kinds) {
    const std::string_view advice = advice_of("x" + ending);
    if (advice.empty()) continue;
    texts.push_back(fmt::format("{} left out. {}.", counted(count, ending + " file"), advice));
  }
  return texts;
}

/// Training needs images of each class, another part any. Few images may give none to `split`.
void require_images(const ImageIndex& index, const Split& split) {
  const LabelledFiles &train = index.parts[kTrain], &validation = index.parts[kValidation];
  const std::vector<std::string> kinds = left_out(index);
  const std::string others = kinds.empty() ? "" : fmt::format(" ({})", fmt::join(kinds, " "));
  const bool divided = split.any() && !validation.folder.empty();
  for (const LabelledFiles& part : index.parts) {
    const bool one_of_two = divided && (&part == &validation || validation.size() > 0);
    require(part.folder.empty() || part.size() > 0 || (one_of_two && &part != &index.parts[kTest]),
            "{} contains no images{}. Add images.", part.folder, others);
  }
  require(!divided || validation.size() > 0,
          "{} takes none of {} training images. Pass a larger part.", split.text(), train.size());
  if (train.folder.empty()) return;
  std::vector<bool> used(index.classes.size());
  for (const std::int32_t label : train.labels) used[label] = true;
  for (std::size_t label = 0; label < used.size(); ++label) {
    require(used[label], "{}/{} contains no images{}{}. Add images{}, or move the class elsewhere.",
            train.folder, index.classes[label], divided ? " for training" : "", others,
            divided ? ", pass a smaller --validation" : "");
  }
}

/// The image files of all classes in `folders`, with labels of index.classes. `index` counts the
/// other files.
LabelledFiles files_in(const Folders& folders, int threads, ImageIndex& index) {
  const std::vector<std::string>& classes = folders.classes;
  std::vector<std::vector<FoundFile>> found(classes.size());
  read_in_parallel(threads, std::ssize(classes), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) found[i] = files_of_class(folders.path / classes[i]);
  });
  LabelledFiles files{.folder = folders.path.string(),
                      .classes = static_cast<int>(index.classes.size())};
  for (std::size_t label = 0; label < classes.size(); ++label) {
    for (const FoundFile& file : std::exchange(found[label], {})) {
      if (has_image_name(file.name)) {
        files.add(classes[label] + "/" + file.name, static_cast<std::int32_t>(label), file.bytes);
      } else {
        ++index.others;
        ++index.kinds[ending_of(file.name)];
      }
    }
  }
  relabel(files.labels, classes, index.classes);
  return files;
}

std::string identity_of(const char* part, const LabelledFiles& files) {
  std::string all;
  for (std::int64_t i = 0; i < files.size(); ++i)
    all += fmt::format("{} {}\n", files.names[i], files.bytes[i]);
  std::string text = fmt::format("{} image files = {}, crc32c of names and sizes {:08x}\n", part,
                                 files.names.size(), crc32c(all));
  if (files.checksums.empty()) return text;
  // In the order of the names.
  const std::string_view bytes(reinterpret_cast<const char*>(files.checksums.data()),
                               files.checksums.size() * sizeof(std::uint32_t));
  return text + fmt::format("{} {} = crc32c {:08x}\n", part,
                            files.packed ? kPackedContents : kFileContents, crc32c(bytes));
}

constexpr SetPart kDivided[] = {kTrain, kValidation};

/// Moves training files to the validation files.
void divide(const Split& split, ImageIndex& index) {
  LabelledFiles all = std::move(index.parts[kTrain]);
  for (const SetPart part : kDivided)
    index.parts[part] = {.folder = all.folder, .classes = all.classes};
  const std::vector<bool> held =
      held_out(split, all.labels, [&](std::int64_t i) { return all.names[i]; });
  for (std::int64_t i = 0; i < all.size(); ++i) {
    index.parts[held[i] ? kValidation : kTrain].add(std::move(all.names[i]), all.labels[i], all.bytes[i]);
  }
}

/// Throws Error if one folder in `root` has train/: archives often unpack to one more folder.
void look_inside(const Folders& root) {
  std::vector<std::string> found;
  for (const std::string& name : root.classes) {
    const Folders inner = folders_in(root.path / name);
    if (!inner.parts[kTrain].empty()) found.push_back(inner.path.string());
  }
  if (found.size() != 1) return;
  fail_usage("{} has no train/, but {} has. Pass --data {}.", root.path.string(), found[0],
             found[0]);
}

ImageIndex read_folders(const DataSource& source) {
  const Folders root = folders_in(source.folder);
  const std::string folder = source.folder.string();
  const bool divided = !root.parts[kTrain].empty();
  const Folders train = divided ? folders_in(root.parts[kTrain]) : root;
  const Split& split = source.validation;
  const bool tested = !root.parts[kValidation].empty() || !root.parts[kTest].empty();
  if (!divided && (root.classes.size() < 2 || (!split.any() && !tested))) look_inside(root);
  ImageIndex index;
  index.classes = train.at_least(2);
  if (!root.parts[kValidation].empty() && split.any())
    fail_usage("{} has val/, and {} makes another one. Omit it.", folder, split.text());
  if (!split.any() && !tested) {
    if (!divided)
      fail_usage("{} has no train/. Pass --validation 0.1 to divide its classes.", folder);
    fail("{} has train/, but neither val/ nor test/. Add one of them, or pass --validation 0.1.",
         folder);
  }
  std::vector<std::string> unused;
  const auto add_parts = [&](const Folders& inner) {
    for (const fs::path& part : inner.parts)
      if (!part.empty()) unused.push_back(part.string());
  };
  if (divided) {
    for (const std::string& name : root.classes) unused.push_back((root.path / name).string());
    add_parts(train);
  }
  index.parts[kTrain] = files_in(train, source.threads, index);
  if (split.any()) divide(split, index);
  for (const SetPart part : {kValidation, kTest}) {
    if (root.parts[part].empty()) continue;
    const Folders tested = folders_in(root.parts[part]);
    require_known_classes(tested.path, tested.classes, train.classes, train.path.string());
    add_parts(tested);
    index.parts[part] = files_in(tested, source.threads, index);
  }
  if (!unused.empty())
    index.notes.push_back("these folders are not used: " + one_line(listed(unused)));
  return index;
}

/// Whether the run was trained on the images of `index`, perhaps in another place.
bool is_trained_on(const ImageIndex& index, const fs::path& folder,
                   const DataOfCheckpoint& trained) {
  std::error_code missing;
  if (fs::equivalent(folder, trained.folder, missing)) return true;
  return std::all_of(std::begin(kDivided), std::end(kDivided), [&](SetPart part) {
    return trained.identity.find(identity_of(kPartNames[part], index.parts[part])) !=
           std::string::npos;
  });
}

ImageIndex read_test_folders(const DataSource& source, const DataOfCheckpoint& trained) {
  const Folders root = folders_in(source.folder);
  const SetPart part = root.parts[kTest].empty() ? kValidation : kTest;
  const bool has_parts = !root.parts[part].empty(), has_train = !root.parts[kTrain].empty();
  if (!has_parts && !has_train) look_inside(root);
  const Folders held = has_parts   ? folders_in(root.parts[part])
                       : has_train ? folders_in(root.parts[kTrain])
                                   : root;
  ImageIndex index;
  index.classes = held.at_least(1);
  LabelledFiles& all = index.parts[has_parts ? part : kTest];
  all = files_in(held, source.threads, index);
  if (has_parts) return index;
  const std::string folder = source.folder.string();
  if (source.validation.any()) {
    ImageIndex divided = index;
    divided.parts[kTrain] = std::exchange(divided.parts[kTest], {});
    divide(source.validation, divided);
    const bool own = is_trained_on(divided, source.folder, trained);
    divided.parts[kTrain] = {};
    ImageIndex& seen = own ? divided : index;
    seen.notes.push_back(fmt::format(
        "{} of {} images in {} are evaluated: {}", seen.size(), all.size(), folder,
        own ? "those that the run kept from training"
            : "it is not the folder of the run, but may contain images that it trained on"));
    if (own) return divided;
  }
  require(!has_train,
          "{} has train/, but neither val/ nor test/. Pass {} to evaluate its training images.",
          folder, held.path.string());
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
          check_image(index.parts[part].path(place), source.images.decodes());
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
std::string damage_text(const std::vector<Damage>& damage, const ImageIndex& index) {
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
    const std::string text = damage_text(damage, index);
    require(source.images.skips(),
            "{}. Replace them, or pass --check-images {} to train without them.", text,
            source.images.check_that_skips());
    index.notes.push_back(text + ". They are left out.");
    remove(damage, index);
  }
  require_images(index, source.validation);
  index.note_copies();
  const std::vector<std::string> kinds = left_out(index);
  index.notes.insert(index.notes.end(), kinds.begin(), kinds.end());
  return index;
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

void ImageIndex::note_copies() {
  std::unordered_set<std::uint64_t> trained;
  for (const LabelledFiles& files : parts) {
    std::vector<std::string> copies;
    for (std::int64_t i = 0; i < files.size(); ++i) {
      const std::uint64_t key = files.bytes[i] << 32 ^ files.checksums[i];
      if (&files == &parts[kTrain]) {
        trained.insert(key);
      } else if (trained.contains(key)) {
        copies.push_back(files.path(i));
      }
    }
    if (copies.empty()) continue;
    notes.push_back(one_line(fmt::format(
        "{} of {} {} images seem to be training images too, such as {}. The accuracy is too high.",
        copies.size(), files.size(), kPartNames[&files - parts.data()], copies[0])));
  }
}

ImageIndex find_images(const DataSource& source) { return find(source, read_folders); }

ImageIndex find_test_images(const DataSource& source, const DataOfCheckpoint& trained) {
  ImageIndex index =
      find(source, [&](const DataSource& from) { return read_test_folders(from, trained); });
  for (LabelledFiles& part : index.parts) {
    if (part.size() == 0) continue;
    require_known_classes(part.folder, index.classes, trained.class_names);
    relabel(part.labels, index.classes, trained.class_names);
    part.classes = static_cast<int>(trained.class_names.size());
  }
  return index;
}

}  // namespace lockstep
