#include <algorithm>
#include <cmath>
#include <set>
#include <variant>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/sets/data_folder.h"
#include "src/data/sets/images.h"
#include "src/data/text/words.h"
#include "src/files/file_kind.h"
#include "src/files/hdf5.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMostClasses = 10000;
constexpr std::string_view kAdvice =
    "Store the arrays images (N, H, W, C or N, H, W; whole numbers from 0 to 255, not 0 to 1) and "
    "labels (N; whole numbers from 0).";

/// By label: the texts of the file's attribute class_names, at least as many as `numbers`, or
/// these.
std::vector<std::string> class_names(const std::filesystem::path& file,
                                     const std::vector<std::string>& numbers) {
  const Hdf5Reader reader(file);
  const auto& attributes = reader.attributes();
  const auto found = attributes.find("class_names");
  if (found == attributes.end()) return numbers;
  const auto* const text = std::get_if<std::string>(&found->second);
  std::vector<std::string> names = lines_of(text != nullptr ? *text : "");
  for (std::string& name : names) {
    if (name.ends_with('\r')) name.pop_back();
    require(one_line(name) == name && invalid_utf8(name) == name.npos,
            "{}: the attribute class_names has a control character or is no UTF-8. Rename \"{}\".",
            file.string(), one_line(name));
  }
  const std::set<std::string> different(names.begin(), names.end());
  require(
      names.size() >= numbers.size() && different.size() == names.size() && !different.contains(""),
      "{}: the attribute class_names has {}, and the labels need {}. Write texts that differ, "
      "one for each label.",
      file.string(), counted(std::ssize(names), "name"), numbers.size());
  return names;
}

ImageStore read_file(const std::filesystem::path& file) {
  const std::string path = file.string(), advice = look_into("hdf5", "", file.parent_path(), file);
  std::error_code ignored;
  require(std::filesystem::exists(file, ignored), "{} does not exist. {}", path, advice);
  require_kind(file, kArraysFile);
  const Hdf5Reader reader(file);
  for (const char* name : {"images", "labels"}) {
    require(reader.has(name), "{} has no array \"{}\", but {}. {}", path, name,
            listed(reader.arrays()), kAdvice);
  }
  const Shape shape = reader.shape("images"), labels = reader.shape("labels");
  require(shape.rank() >= 3 && labels.rank() > 0 && labels[0] == shape[0] && shape.count() > 0,
          "{} has images of shape {} and labels of shape {}. {}", path, shape.text(), labels.text(),
          kAdvice);
  require(
      labels.rank() == 1 || labels.count() == labels[0],
      "{} has labels of shape {}. Store one number for each image, such as numpy.argmax(labels, "
      "1) of one-hot labels.",
      path, labels.text());
  ImageStore store;
  store.size = {shape[1], shape[2], shape.rank() == 4 ? shape[3] : 1};
  require(
      store.size.channels <= 4 || shape[1] > 4,
      "{} has images of shape {}: the channels come first. Store numpy.moveaxis(images, 1, -1).",
      path, shape.text());
  require(store.size.channels <= 4, "{} has images of {} channels, and 1 to 4 can be read. {}",
          path, store.size.channels, kAdvice);
  const auto pixels = whole_numbers(reader, path, "images", 255, kAdvice);
  store.pixels.assign(pixels.begin(), pixels.end());
  const auto numbers = whole_numbers(reader, path, "labels", kMostClasses - 1, kAdvice);
  store.labels.assign(numbers.begin(), numbers.end());
  return store;
}

}  // namespace

std::vector<float> whole_numbers(const Hdf5Reader& reader, const std::string& path,
                                 const std::string& name, std::int64_t high,
                                 std::string_view advice) {
  std::vector<float> values = reader.values(name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    require(values[i] >= 0 && values[i] <= high && values[i] == std::floor(values[i]),
            "{}: number {} of \"{}\" is {}, not a whole number from 0 to {}. {}", path, i, name,
            values[i], high, advice);
  }
  return values;
}

OpenedData open_hdf5_images(const DataSource& source) {
  const auto& directory = source.place.folder();
  ImageStore train = read_file(directory / "train.h5"), test = read_file(directory / "test.h5");
  require(train.size == test.size,
          "{} has images of {}x{}x{} and test.h5 of {}x{}x{}. Resize the images of one file.",
          (directory / "train.h5").string(), train.size.height, train.size.width,
          train.size.channels, test.size.height, test.size.width, test.size.channels);
  const std::int32_t last = std::max(std::ranges::max(train.labels), std::ranges::max(test.labels));
  std::vector<std::string> numbers;
  for (std::int32_t label = 0; label <= std::max(last, 1); ++label)
    numbers.push_back(std::to_string(label));
  const auto names = class_names(directory / "train.h5", numbers);
  OpenedData data =
      image_datasets(std::move(train), std::move(test), names, "HDF5 files", directory.string());
  if (names != numbers) data.identity += fmt::format("classes = {}\n", fmt::join(names, ", "));
  return data;
}

OpenedData open_hdf5_test_images(const DataSource& source, const DataOfCheckpoint& trained) {
  const std::filesystem::path file = source.place.folder() / "test.h5";
  ImageStore test = read_file(file);
  // The labels of both files have one order.
  const std::int32_t classes = trained.class_names.size();
  std::set<std::int32_t> unknown(test.labels.begin(), test.labels.end());
  unknown.erase(unknown.begin(), unknown.lower_bound(classes));
  if (!unknown.empty()) {
    std::vector<std::string> names;
    for (const std::int32_t label : unknown) names.push_back(std::to_string(label));
    fail_usage("{} contains labels that the checkpoint does not know: {}. It knows 0 to {}.",
               file.string(), listed(names), classes - 1);
  }
  return test_images(std::move(test), trained, "HDF5 files", source.place.folder().string());
}

DatasetEntry hdf5() {
  return {.name = "hdf5",
          .about = "images of your own: DIR/train.h5 and DIR/test.h5 with arrays images and labels",
          .files = "train.h5 and test.h5 with arrays images and labels",
          .model = "resnet20",
          .steps = 10000,
          .open = open_hdf5_images,
          .own = true,
          .open_test = open_hdf5_test_images};
}

}  // namespace lockstep
