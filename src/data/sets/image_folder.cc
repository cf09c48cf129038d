#include <algorithm>
#include <set>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// The entries of a folder, sorted by name, without hidden ones.
struct Listing {
  std::vector<fs::path> files, folders;
};

Listing listed(const fs::path& folder) {
  Listing found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().string().starts_with(".")) continue;
    const fs::file_status status = entry->status(error);  // of what a link leads to
    if (!fs::status_known(status)) break;
    (fs::is_directory(status) ? found.folders : found.files).push_back(path);
  }
  require(!error,
          "cannot read {}: {}; --data names a folder with train/CLASS/IMAGE and "
          "test/CLASS/IMAGE",
          folder.string(), error.message());
  std::sort(found.files.begin(), found.files.end());
  std::sort(found.folders.begin(), found.folders.end());
  return found;
}

std::vector<std::string> class_names(const fs::path& folder, std::size_t least = 2) {
  std::vector<std::string> names;
  for (const fs::path& path : listed(folder).folders) names.push_back(path.filename().string());
  require(
      names.size() >= least,
      "{} holds {} class folders, and at least {} are needed; put the images of each class into a "
      "folder of its name",
      folder.string(), names.size(), least);
  for (const std::string& name : names) {
    require(
        printable(name) == name && name.find('\n') == std::string::npos,
        "{} holds a class whose name has a line end or another control character; rename \"{}\"",
        folder.string(), name);
  }
  return names;
}

/// Appends the files of `folder`, then those of each folder in it. `entered` holds the folders that
/// were read. A folder that several links lead to is read once, so that a loop of links ends.
void add_files(const fs::path& folder, std::set<fs::path>& entered, std::vector<fs::path>& files) {
  std::error_code error;
  const fs::path place = fs::canonical(folder, error);
  if (!error && !entered.insert(place).second) return;
  const Listing found = listed(folder);
  files.insert(files.end(), found.files.begin(), found.files.end());
  for (const fs::path& inner : found.folders) add_files(inner, entered, files);
}

/// The files of a class, those in its sub-folders included, in an order that only names decide. A
/// link to a folder around the class is not followed: it leads to the images of other classes.
std::vector<fs::path> files_of_class(const fs::path& folder) {
  std::set<fs::path> entered;
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::path inner = fs::canonical(folder, error); !error && inner.has_relative_path();) {
    inner = inner.parent_path();
    entered.insert(inner);
  }
  add_files(folder, entered, files);
  return files;
}

/// All images of a part. `first`: the first image of all, whose size they have.
ImageStore read_part(const fs::path& folder, const std::vector<std::string>& names,
                     std::pair<fs::path, ImageSize>& first) {
  ImageStore store;
  for (std::size_t label = 0; label < names.size(); ++label) {
    const std::vector<fs::path> files = files_of_class(folder / names[label]);
    require(!files.empty(),
            "{} holds no images: add images, or move this class out of train and test",
            (folder / names[label]).string());
    for (const fs::path& file : files) {
      const ImageStore image = read_image_file(file);
      if (first.first.empty()) first = {file, image.size};
      require(image.size == first.second,
              "{} is {}x{} pixels and {} is {}x{}: all images must have one size; write resized "
              "copies to a new folder and pass it as --data",
              file.string(), image.size.height, image.size.width, first.first.string(),
              first.second.height, first.second.width);
      store.pixels.insert(store.pixels.end(), image.pixels.begin(), image.pixels.end());
      store.labels.push_back(static_cast<std::int32_t>(label));
    }
  }
  store.size = first.second;
  return store;
}

}  // namespace

DatasetPair open_folder(const fs::path& directory, std::uint64_t /*seed*/) {
  require(!directory.empty(),
          "data set folder needs the folder of its images (--data DIR): DIR/train/CLASS/IMAGE and "
          "DIR/test/CLASS/IMAGE");
  const std::vector<std::string> names = class_names(directory / "train"),
                                 tested = class_names(directory / "test");
  require(names == tested,
          "{} holds the classes {}, and {} holds {}; rename or move the folders until they agree",
          (directory / "train").string(), fmt::join(names, ", "), (directory / "test").string(),
          fmt::join(tested, ", "));
  std::pair<fs::path, ImageSize> first;
  ImageStore train = read_part(directory / "train", names, first),
             test = read_part(directory / "test", names, first);
  DatasetPair pair =
      image_datasets(std::move(train), std::move(test), names, "image files", directory.string());
  pair.identity += fmt::format("classes = {}\n", fmt::join(names, ", "));
  return pair;
}

DatasetPair open_test_folder(const fs::path& directory, const TrainedImages& trained) {
  const fs::path folder = directory / "test";
  const std::vector<std::string> names = class_names(folder, 1),
                                 unknown = missing_from(trained.class_names, names);
  if (!unknown.empty()) {
    fail_usage("{} holds classes that the checkpoint does not know: {}; it knows {}",
               folder.string(), listed(unknown), listed(trained.class_names));
  }
  std::pair<fs::path, ImageSize> first;
  ImageStore test = read_part(folder, names, first);
  for (std::int32_t& label : test.labels) {
    const auto place =
        std::find(trained.class_names.begin(), trained.class_names.end(), names[label]);
    label = static_cast<std::int32_t>(place - trained.class_names.begin());
  }
  const fs::path training = directory / "train";
  const auto read_training = [&] { return read_part(training, class_names(training), first); };
  return test_images(std::move(test), trained, training, read_training, "image files",
                     directory.string());
}

DatasetEntry folder() {
  return {.name = "folder",
          .about = "images of your own: DIR/train/CLASS and DIR/test/CLASS with PNG or JPEG files",
          .files = "train/CLASS and test/CLASS, folders of PNG or JPEG files of one size",
          .model = "resnet20",
          .steps = 10000,
          .open = open_folder,
          .own = true,
          .open_test = open_test_folder};
}

}  // namespace lockstep
