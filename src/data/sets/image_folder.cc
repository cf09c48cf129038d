#include "src/base/check.h"
#include "src/data/image/image.h"
#include "src/data/image/photos.h"
#include "src/data/sets/images.h"

namespace lockstep {
namespace {

std::vector<std::uint8_t> grey(const Image& image) {
  std::vector<std::uint8_t> values(image.size.height * image.size.width);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = grey_of(&image.pixels[3 * i]);
  return values;
}

/// All images of a part. They have the size of the file `first`, which the first call sets.
ImageStore read_part(const LabelledFiles& files, std::int64_t channels,
                     std::pair<std::string, ImageSize>& first) {
  ImageStore store;
  store.labels = files.labels;
  for (std::int64_t i = 0; i < files.size(); ++i) {
    const std::string file = files.path(i);
    Image image = read_image(file);
    if (first.first.empty()) first = {file, image.size};
    require(image.size == first.second,
            "{} is {}x{} pixels and {} is {}x{}: all images must have one size. Pass "
            "--image-size, which resizes them in memory.",
            file, image.size.height, image.size.width, first.first, first.second.height,
            first.second.width);
    if (channels == 1) image.pixels = grey(image);
    store.pixels.insert(store.pixels.end(), image.pixels.begin(), image.pixels.end());
    store.files.push_back(file);
  }
  store.size = first.second;
  store.size.channels = channels;
  return store;
}

}  // namespace

OpenedData open_folder(const DataSource& source) {
  const auto& directory = source.place.folder();
  require(!directory.empty(),
          "data set folder needs the folder of its images. Pass --data DIR with "
          "DIR/train/CLASS/IMAGE and "
          "DIR/test/CLASS/IMAGE.");
  if (source.images.size > 0) return photo_files(find_images(source), source, nullptr);
  DataSource undivided = source;  // --validation divides any data set in memory
  undivided.validation = {};
  const ImageIndex index = find_images(undivided);
  require(index.parts[kTest].size() > 0, "{} has no test/. Add it, or pass --image-size.",
          directory.string());
  std::pair<std::string, ImageSize> first;
  const std::int64_t channels = source.images.channels();
  ImageStore train = read_part(index.parts[kTrain], channels, first),
             test = read_part(index.parts[kTest], channels, first);
  OpenedData pair = image_datasets(std::move(train), std::move(test), index.classes, "image files",
                                   index.place(source));
  pair.identity += fmt::format("classes = {}\n", fmt::join(index.classes, ", "));
  pair.notes = index.notes;
  if (index.parts[kValidation].size() > 0) {
    pair.notes.push_back(
        fmt::format("{} is not used without --image-size", index.parts[kValidation].folder));
  }
  return pair;
}

OpenedData open_test_folder(const DataSource& source, const DataOfCheckpoint& trained) {
  ImageIndex index = find_test_images(source, trained);
  if (source.images.size > 0) return photo_files(std::move(index), source, &trained);
  const LabelledFiles& files = index.parts[index.parts[kTest].size() > 0 ? kTest : kValidation];
  std::pair<std::string, ImageSize> first;
  return test_images(read_part(files, source.images.channels(), first), trained, "image files",
                     source.place.folder().string());
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
          .resizes = true,
          .usual_edge = usual_edge_in};
}

}  // namespace lockstep
