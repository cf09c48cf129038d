#include "src/data/image/image_index.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/image/image_parts.h"
#include "src/data/read_in_parallel.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabelledFiles, folder, names, labels, classes, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageIndex, classes, parts, others, kinds, notes, table)

namespace {

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
        kept.take(files, i);
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

void LabelledFiles::take(LabelledFiles& all, std::int64_t index) {
  add(std::move(all.names[index]), all.labels[index], all.bytes[index]);
  if (!all.checksums.empty()) checksums.push_back(all.checksums[index]);
}

std::int64_t ImageIndex::size() const {
  std::int64_t all = 0;
  for (const LabelledFiles& part : parts) all += part.size();
  return all;
}

std::string ImageIndex::identity() const {
  std::string text;
  for (const SetPart part : {kTrain, kValidation, kTest})
    if (parts[part].size() > 0) text += identity_of(*this, part);
  if (parts[kTrain].size() > 0) text += fmt::format("classes = {}\n", fmt::join(classes, ", "));
  return text;
}

ImageIndex find_images(const DataSource& source) { return find(source, read_parts); }

ImageIndex find_test_images(const DataSource& source, const DataOfCheckpoint& trained) {
  ImageIndex index =
      find(source, [&](const DataSource& from) { return read_test_parts(from, trained); });
  for (LabelledFiles& part : index.parts) {
    if (part.size() == 0) continue;
    require_known_classes(part.folder, index.classes, trained.class_names);
    relabel(part.labels, index.classes, trained.class_names);
    part.classes = static_cast<int>(trained.class_names.size());
  }
  index.classes = trained.class_names;
  return index;
}

}  // namespace lockstep
