#include <algorithm>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/image/photos.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<std::uint8_t> grey(const Image& image) {
  std::vector<std::uint8_t> values(image.size.height * image.size.width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = grey_of(&image.pixels[3 * i]);
  return values;
}

/// All images of a part. `first`: the first image of all, whose size they have.
ImageStore read_part(const fs::path& folder, const std::vector<std::string>& names,
                     std::int64_t channels, std::pair<fs::path, ImageSize>& first) {
  ImageStore store;
  for (std::size_t label = 0; label < names.size(); ++label) {
    const std::vector<FoundFile> files = files_of_class(folder / names[label]);
    require(!files.empty(),
            "{} contains no images. Add images, or move this class out of train and test.",
            (folder / names[label]).string());
    for (const FoundFile& found : files) {
      const fs::path file = folder / names[label] / found.name;
      Image image = read_image(file);
      if (first.first.empty()) first = {file, image.size};
      require(image.size == first.second,
              "{} is {}x{} pixels and {} is {}x{}: all images must have one size. Pass "
              "--image-size, which resizes them in memory.",
              file.string(), image.size.height, image.size.width, first.first.string(),
              first.second.height, first.second.width);
      if (channels == 1) image.pixels = grey(image);
      store.pixels.insert(store.pixels.end(), image.pixels.begin(), image.pixels.end());
      store.labels.push_back(static_cast<std::int32_t>(label));
    }
  }
  store.size = first.second;
  store.size.channels = channels;
  return store;
}

}  // namespace

DatasetPair open_folder(const DataSource& source) {
  const auto& directory = source.folder;
  require(!directory.empty(),
          "data set folder needs the folder of its images. Pass --data DIR with "
          "DIR/train/CLASS/IMAGE and "
          "DIR/test/CLASS/IMAGE.");
  if (source.images.size > 0) return open_photos(source);
  const std::vector<std::string> names = class_names(directory / "train"),
                                 tested = class_names(directory / "test");
  require_same_classes(directory / "train", names, directory / "test", tested);
  std::pair<fs::path, ImageSize> first;
  const std::int64_t channels = source.images.channels();
  ImageStore train = read_part(directory / "train", names, channels, first),
             test = read_part(directory / "test", names, channels, first);
  DatasetPair pair =
      image_datasets(std::move(train), std::move(test), names, "image files", directory.string());
  pair.identity += fmt::format("classes = {}\n", fmt::join(names, ", "));
  return pair;
}

DatasetPair open_test_folder(const DataSource& source, const TrainedImages& trained) {
  const auto& directory = source.folder;
  if (source.images.size > 0) return open_test_photos(source, trained);
  const fs::path folder = directory / "test";
  const std::vector<std::string> names = class_names(folder, 1);
  require_known_classes(folder, names, trained.class_names);
  std::pair<fs::path, ImageSize> first;
  const std::int64_t channels = source.images.channels();
  ImageStore test = read_part(folder, names, channels, first);
  relabel(test.labels, names, trained.class_names);
  const fs::path training = directory / "train";
  const auto read_training = [&] {
    return read_part(training, class_names(training), channels, first);
  };
  return test_images(std::move(test), trained, training, read_training, "image files",
                     directory.string());
}

DatasetEntry folder() {
  return {.name = "folder",
          .about = "your own images: DIR/train/CLASS and DIR/test/CLASS with image files",
          .files = "train/CLASS and test/CLASS, folders of image files",
          .model = "resnet20",
          .steps = 10000,
          .open = open_folder,
          .own = true,
          .open_test = open_test_folder,
          .resizes = true};
}

}  // namespace lockstep
