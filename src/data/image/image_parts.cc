#include "src/data/image/image_parts.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image_table.h"
#include "src/data/read_in_parallel.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

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

constexpr SetPart kDivided[] = {kTrain, kValidation};

/// Moves training files to the validation files.
void divide(const Split& split, ImageIndex& index) {
  LabelledFiles all = std::move(index.parts[kTrain]);
  for (const SetPart part : kDivided)
    index.parts[part] = {.folder = all.folder, .classes = all.classes};
  const std::vector<bool> held =
      held_out(split, all.labels, [&](std::int64_t i) { return all.names[i]; });
  for (std::int64_t i = 0; i < all.size(); ++i)
    index.parts[held[i] ? kValidation : kTrain].take(all, i);
}

/// The images of a table for training.
ImageIndex divided_table(ImageIndex index, const DataSource& source) {
  const Split& split = source.validation;
  const bool validated = index.parts[kValidation].size() > 0;
  const bool tested = validated || index.parts[kTest].size() > 0;
  if (validated && split.any())
    fail_usage("{} names validation images, and {} makes others. Omit it.", index.table,
               split.text());
  if (!split.any() && !tested) {
    fail_usage(
        "{} names neither validation nor test images. Pass --validation 0.1, add val/, or write "
        "train and validation into a column part.",
        index.table);
  }
  require(index.classes.size() > 1,
          "{} names training images of {}, and at least 2 are needed. Add some.", index.table,
          counted(std::ssize(index.classes), "class"));
  if (split.any()) divide(split, index);
  return index;
}

ImageIndex read_folders(const DataSource& source) {
  const Folders root = parts_in(source.place.folder());
  const std::string folder = source.place.folder().string();
  const bool divided = !root.parts[kTrain].empty();
  const Folders train = divided ? folders_in(root.parts[kTrain]) : root;
  const Split& split = source.validation;
  const bool tested = !root.parts[kValidation].empty() || !root.parts[kTest].empty();
  if (!divided && (root.classes.size() < 2 || (!split.any() && !tested))) look_inside(root);
  if (!divided) root.refuse_parts();
  ImageIndex index;
  index.classes = train.at_least(2);
  if (!root.parts[kValidation].empty() && split.any())
    fail_usage("{} has val/, and {} makes another one. Omit it.", folder, split.text());
  if (!split.any() && !tested) {
    if (!divided)
      fail_usage("{} has no train/. Pass --validation 0.1 to divide its classes.", folder);
    fail("{} contains neither val/ nor test/ beside {}. Add one of them, or pass --validation 0.1.",
         folder, train.path.string());
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
bool is_trained_on(const ImageIndex& index, const DataOfCheckpoint& trained) {
  return std::all_of(std::begin(kDivided), std::end(kDivided), [&](SetPart part) {
    return trained.identity.find(identity_of(index, part)) != std::string::npos;
  });
}

/// The relation of the evaluated images to the run.
enum class Origin { own, changed, other };

Origin origin_of(const ImageIndex& index, const DataSource& source,
                 const DataOfCheckpoint& trained) {
  if (is_trained_on(index, trained)) return Origin::own;
  std::error_code missing;
  const bool here = source.place.labels == trained.place.labels &&
                    std::ranges::equal(source.place.folders, trained.place.folders,
                                       [&](const std::string& one, const std::string& other) {
                                         return fs::equivalent(one, other, missing);
                                       });
  if (!here) return Origin::other;
  // The run's identity lacks damaged images that it left out.
  return trained.check.find("skip") == trained.check.npos ? Origin::changed : Origin::own;
}

/// By Origin.
constexpr const char* kOrigins[] = {
    "those that the run kept from training",
    "the data have changed since the run began, so it may have trained on some of them",
    "they are not those of the run, but may contain images that it trained on"};

/// `index`, whose test images are those of a folder or table without images for evaluation. Those
/// that the run kept from training if there are such; else all, unless they are for training.
/// `training`: an error's sentences in this case; empty: the images have no part.
ImageIndex held_out_of(ImageIndex index, const DataSource& source, const DataOfCheckpoint& trained,
                       const std::string& training) {
  const std::int64_t all = index.size();
  if (source.validation.any()) {
    ImageIndex divided = index;
    divided.parts[kTrain] = std::exchange(divided.parts[kTest], {});
    divide(source.validation, divided);
    const Origin origin = origin_of(divided, source, trained);
    divided.parts[kTrain] = {};
    ImageIndex& seen = origin == Origin::other ? index : divided;
    seen.notes.push_back(fmt::format("{} of {} images in {} are evaluated: {}", seen.size(), all,
                                     source.place.text(),
                                     kOrigins[static_cast<std::size_t>(origin)]));
    if (origin != Origin::other) return divided;
  }
  require(training.empty(), "{}", training);
  return index;
}

ImageIndex read_test_folders(const DataSource& source, const DataOfCheckpoint& trained) {
  const Folders root = parts_in(source.place.folder());
  const SetPart part = root.parts[kTest].empty() ? kValidation : kTest;
  const bool has_parts = !root.parts[part].empty(), has_train = !root.parts[kTrain].empty();
  if (!has_parts && !has_train) look_inside(root);
  const Folders held = has_parts   ? folders_in(root.parts[part])
                       : has_train ? folders_in(root.parts[kTrain])
                                   : root;
  if (!has_parts && !has_train) root.refuse_parts();
  ImageIndex index;
  index.classes = held.at_least(1);
  index.parts[has_parts ? part : kTest] = files_in(held, source.threads, index);
  if (has_parts) return index;
  const std::string training = fmt::format(
      "{} has train/, but neither val/ nor test/. Pass {} to evaluate its training images.",
      source.place.folder().string(), held.path.string());
  return held_out_of(std::move(index), source, trained, has_train ? training : "");
}

}  // namespace

/// The class of a file counts only if its name does not begin with that, so a table that names the
/// files of class folders leaves the identity as it is.
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
  // In the order of the names.
  const std::string_view bytes(reinterpret_cast<const char*>(files.checksums.data()),
                               files.checksums.size() * sizeof(std::uint32_t));
  return text + fmt::format("{} {} = crc32c {:08x}\n", part,
                            files.packed ? kPackedContents : kFileContents, crc32c(bytes));
}

ImageIndex read_parts(const DataSource& source) {
  auto images = read_image_table(source, /*tested=*/false);
  return images ? divided_table(std::move(images->index), source) : read_folders(source);
}

ImageIndex read_test_parts(const DataSource& source, const DataOfCheckpoint& trained) {
  auto images = read_image_table(source, /*tested=*/true);
  if (!images) return read_test_folders(source, trained);
  ImageIndex& index = images->index;
  if (index.parts[kTrain].size() == 0) return index;
  index.parts[kTest] = std::exchange(index.parts[kTrain], {});
  const std::string training =
      fmt::format("{} names only training images. Pass --labels with test images.", index.table);
  return held_out_of(std::move(index), source, trained, images->has_train ? training : "");
}

}  // namespace lockstep
