#include "src/data/image/image_index.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/checksum.h"
#include "src/data/image/image.h"
#include "src/data/read_in_parallel.h"
#include "src/data/rows/image_rows.h"

namespace lockstep {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LabelledFiles, folder, names, labels, classes, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ImageIndex, classes, parts, others, kinds, notes, table)

namespace {

/// By the place of a file among those of all parts, why it cannot be read.
using Damage = std::map<std::int64_t, std::string>;

/// The result of a rank for its share of the files.
struct Checked {
  Damage damage;
  std::vector<std::uint32_t> checksums;  ///< of all parts, one after the other; damaged: 0
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Checked, damage, checksums)

std::string path_of(const ImageIndex& index, std::int64_t place) {
  const auto* part = index.parts.data();
  for (; place >= part->size(); ++part) place -= part->size();
  return part->path(place);
}

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
  // An empty half of a divided part is reported below, by an error that names --validation.
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
  std::mutex mutex;
  const auto check = [&](std::int64_t place) {
    const auto add = [&](const std::string& why) {
      const std::lock_guard lock(mutex);
      checked.damage[place] = why;
    };
    try {
      checked.checksums[place - first] =
          check_image(path_of(index, place), source.images.decodes());
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
  return checked;
}

/// "3 of 900 image files cannot be read: cat/a.jpg (it is empty), ..."
std::string damage_text(const Damage& damage, const ImageIndex& index) {
  std::vector<std::string> names;
  for (const auto& [place, why] : damage)
    names.push_back(one_line(fmt::format("{} ({})", path_of(index, place), why)));
  return fmt::format("{} of {} image files cannot be read: {}", damage.size(), index.size(),
                     listed(names));
}

void remove(const Damage& damage, ImageIndex& index) {
  std::int64_t place = 0;
  for (LabelledFiles& files : index.parts) {
    LabelledFiles kept{.folder = files.folder, .classes = files.classes};
    for (std::int64_t i = 0; i < files.size(); ++i)
      if (!damage.contains(place++)) kept.take(files, i);
    files = std::move(kept);
  }
}

/// Collective among the ranks of a host. `read` reads the folders on one of them.
template <class Read>
ImageIndex find(const DataSource& source, const Read& read) {
  const HostRanks& host = source.host;
  // One rank reads the folders, so all ranks of the host have one list even if a file appears
  // meanwhile. Then each checks its share of the files and gets the results of all.
  const auto first =
      host.gather([&] { return host.rank == 0 ? packed(read(source)) : std::string(); });
  ImageIndex index;
  Damage damage;
  const auto find_mine = [&] {  // within gather(), which tells the other ranks if memory is short
    index = unpacked<ImageIndex>(first[0]);
    return packed(check_files(index, source));
  };
  std::vector<std::uint32_t> checksums;
  for (const std::string& found : host.gather(find_mine)) {
    auto more = unpacked<Checked>(found);
    damage.merge(more.damage);
    checksums.insert(checksums.end(), more.checksums.begin(), more.checksums.end());
  }
  // The shares of the ranks follow each other, so their checksums are those of all parts in order.
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

/// The rows of each part, with labels of their classes.
ImageIndex index_of(Rows all) {
  ImageIndex index;
  for (std::size_t part = 0; part < kParts; ++part) {
    index.parts[part].folder = all.folders[part];
    index.parts[part].classes = all.classes.size();
  }
  // Rows are sorted by class, so the search is rare.
  auto label = all.classes.begin();  // of the row before, mostly
  for (Row& row : all.rows) {
    if (*label != row.label) label = std::ranges::find(all.classes, row.label);
    index.parts[row.part].add(std::move(row.name), label - all.classes.begin(), row.bytes);
  }
  static_cast<RowSummary&>(index) = std::move(all);
  return index;
}

/// The lines of ImageIndex::identity() of one part. The class of a file counts only if its name
/// does not begin with that, so a table that names the files of class folders leaves the identity
/// as it is.
std::string identity_of(const ImageIndex& index, SetPart set) {
  const LabelledFiles& files = index.parts[set];
  const char* part = kPartNames[set];
  std::string all;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const std::string &name = files.names[i], folder = index.classes[files.labels[i]] + "/";
    if (!name.starts_with(folder)) all += folder + " ";
    all += fmt::format("{} {}\n", name, files.bytes[i]);
  }
  std::string text = fmt::format("{} image files = {}, crc32c of names and sizes {:08x}\n", part,
                                 files.names.size(), crc32c(all));
  if (files.checksums.empty()) return text;
  return text + fmt::format("{} {} = crc32c {:08x}\n", part,
                            files.packed ? kPackedContents : kFileContents,
                            crc32c_of(files.checksums));  // in the order of the names
}

ImageIndex read_images(const DataSource& source) {
  Rows all = read_image_rows(source, /*tested=*/false);
  if (source.validation.any()) divide(source.validation, all);
  return index_of(std::move(all));
}

ImageIndex read_test_images(const DataSource& source, const DataOfCheckpoint& trained) {
  Rows all = read_image_rows(source, /*tested=*/true);
  auto part = all.folders[kTest].empty() ? kValidation : kTest;
  if (all.folders[part].empty()) {
    const std::string training = all.table.empty()
                                     ? fmt::format(
                                           "{} has train/, but neither val/ nor test/. Pass {} to "
                                           "evaluate its training images.",
                                           source.place.text(), all.folders[kTrain])
                                     : fmt::format(
                                           "{} names only training images. Pass --labels with test "
                                           "images.",
                                           all.table);
    const auto identity = [](const Rows& divided) {
      const ImageIndex index = index_of(divided);
      return std::vector{identity_of(index, kTrain), identity_of(index, kValidation)};
    };
    part = take_held_out(source, trained, identity, "images", all.has_train ? training : "", all);
  }
  require_known_classes(all.folders[part], all.classes, trained.class_names);
  all.classes = trained.class_names;
  ImageIndex index = index_of(std::move(all));
  // The run trained on the other rows, so they are not evaluated.
  if (part == kValidation) index.parts[kTrain] = {};
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

ImageIndex find_images(const DataSource& source) { return find(source, read_images); }

ImageIndex find_test_images(const DataSource& source, const DataOfCheckpoint& trained) {
  return find(source, [&](const DataSource& from) { return read_test_images(from, trained); });
}

}  // namespace lockstep
