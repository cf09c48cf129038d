#include "src/data/image/photos.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/base/plural.h"
#include "src/data/image/class_folders.h"
#include "src/data/image/image.h"
#include "src/data/standard.h"
#include "src/data/validation.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Mean and deviation of the images of ImageNet, as torchvision's pretrained networks expect them.
constexpr Standard kImageNet{{123.675f, 116.28f, 103.53f, 0}, {58.395f, 57.12f, 57.375f, 1}};
/// The share of the shorter edge that evaluation sees: 224 of 256 pixels.
constexpr double kCentre = 0.875;

/// The smallest shorter edge from which `box` of an image of `size` can still be cut without
/// enlarging it to `edge`.
int least_edge(const ImageSize& size, const Box& box, int edge) {
  const double scale =
      static_cast<double>(edge) / static_cast<double>(std::min(box.height, box.width));
  return static_cast<int>(
      std::ceil(scale * static_cast<double>(std::min(size.height, size.width))));
}

/// `box` of an image of size `from` in the same image of size `to`.
Box scaled(const Box& box, const ImageSize& from, const ImageSize& to) {
  if (from == to) return box;
  const auto place = [](std::int64_t at, std::int64_t of, std::int64_t now) {
    return (at * now + of / 2) / of;
  };
  Box result;
  result.top = place(box.top, from.height, to.height);
  result.left = place(box.left, from.width, to.width);
  result.height = std::clamp<std::int64_t>(
      place(box.top + box.height, from.height, to.height) - result.top, 1, to.height - result.top);
  result.width = std::clamp<std::int64_t>(
      place(box.left + box.width, from.width, to.width) - result.left, 1, to.width - result.left);
  return result;
}

class Photos : public Dataset {
 public:
  Photos(LabelledFiles files, const ImageOptions& options, const Standard& standard,
         std::string about)
      : Dataset({.kind = SampleFormat::Kind::values,
                 .size = {options.size, options.size, 3},
                 .standard = standard,
                 .files = true}),
        files_(std::move(files)),
        about_(std::move(about)),
        least_area_(options.crop_area),
        mirrors_(options.flip == "horizontal" || options.flip == "both"),
        inverts_(options.flip == "vertical" || options.flip == "both") {}

  std::int64_t size() const override { return std::ssize(files_.names); }
  int classes() const override { return files_.classes; }
  std::int32_t label(std::int64_t index) const override { return files_.labels[index]; }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    std::size_t total = files_.labels.size() * sizeof(std::int32_t);
    for (const std::string& name : files_.names) total += sizeof name + name.capacity();
    return total;
  }
  Shape sample_shape() const override { return {1, format().size.height, format().size.width, 3}; }

  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    const int edge = static_cast<int>(format().size.height);
    const std::string path = (files_.folder / files_.names[index]).string();
    const std::vector<std::uint8_t> file = read_image_bytes(path);
    const ImageSize size = image_size(file, path);
    Box box = centre_box(size, edge, edge, kCentre);
    bool mirrored = false, inverted = false;
    if (random != nullptr) {
      box = random_box(size, {.least_area = least_area_}, *random);
      mirrored = random->below(2) == 1 && mirrors_;
      inverted = random->below(2) == 1 && inverts_;
    }
    const Image image = decode_image(file, path, least_edge(size, box, edge));
    std::vector<std::uint8_t> pixels(format().size.count());
    resize(image, scaled(box, size, image.size), edge, edge, pixels.data());
    dispatch(type, [&]<class T>(T*) { write(pixels, mirrored, inverted, static_cast<T*>(out)); });
  }

 private:
  template <class T>
  void write(const std::vector<std::uint8_t>& pixels, bool mirrored, bool inverted, T* out) const {
    const std::int64_t edge = format().size.height;
    const Standard& standard = format().standard;
    for (std::int64_t y = 0; y < edge; ++y) {
      const std::int64_t row = (inverted ? edge - 1 - y : y) * edge;
      for (std::int64_t x = 0; x < edge; ++x) {
        const std::uint8_t* from = &pixels[3 * (row + (mirrored ? edge - 1 - x : x))];
        for (int c = 0; c < 3; ++c) {
          *out++ =
              T((static_cast<float>(from[c]) - standard.mean[c]) * (1 / standard.deviation[c]));
        }
      }
    }
  }

  LabelledFiles files_;
  std::string about_;
  double least_area_;
  bool mirrors_, inverts_;
};

/// The files of a part, and those that are no images by their names.
struct Part {
  LabelledFiles files;
  std::int64_t others = 0;
};

/// `is_part`: whether a file belongs to the part, by its name relative to `folder`.
template <class IsPart>
Part find_part(const fs::path& folder, const std::vector<std::string>& classes,
               const IsPart& is_part) {
  Part part;
  part.files.folder = folder;
  part.files.classes = static_cast<int>(classes.size());
  for (std::size_t label = 0; label < classes.size(); ++label) {
    const std::size_t before = part.files.names.size();
    for (const fs::path& file : files_of_class(folder / classes[label])) {
      const std::string name = file.lexically_relative(folder).string();
      if (!has_image_name(file)) {
        ++part.others;
      } else if (is_part(name)) {
        part.files.names.push_back(name);
        part.files.labels.push_back(static_cast<std::int32_t>(label));
      }
    }
    require(part.files.names.size() > before,
            "{} holds no images of this part. Add images, or move the class to another folder.",
            (folder / classes[label]).string());
  }
  return part;
}

/// The line of DatasetPair::identity: the names and sizes of the files, which are not read.
std::string identity_of(const char* part, const LabelledFiles& files) {
  std::string all;
  for (const std::string& name : files.names) {
    std::error_code unreadable;
    const auto bytes = fs::file_size(files.folder / name, unreadable);
    all += fmt::format("{} {}\n", name, unreadable ? 0 : bytes);
  }
  return fmt::format("{} image files = {}, crc32c of names and sizes {:08x}\n", part,
                     files.names.size(), crc32c(all));
}

std::unique_ptr<Dataset> dataset_of(const char* name, Part part, const ImageOptions& options,
                                    const Standard& standard) {
  const std::string others =
      part.others > 0 ? fmt::format("; {} left out", counted(part.others, "other file")) : "";
  std::string about = fmt::format("{} {} images in {} classes from {}, resized to {}x{}{}",
                                  part.files.names.size(), name, part.files.classes,
                                  part.files.folder.string(), options.size, options.size, others);
  return photos(std::move(part.files), options, standard, std::move(about));
}

/// The sub-folder `name` of `folder`; empty if there is none.
fs::path part_of(const fs::path& folder, const char* name) {
  std::error_code unreadable;
  return fs::is_directory(folder / name, unreadable) ? folder / name : fs::path();
}

/// The parts of a folder. Validation or test files may be missing, but not both.
struct Parts {
  std::vector<std::string> classes;
  Part train;
  std::optional<Part> validation, test;
};

Parts find_parts(const DataSource& source) {
  const fs::path &folder = source.folder, divided = part_of(folder, "train"),
                 validation = part_of(folder, "val"), test = part_of(folder, "test"),
                 train = divided.empty() ? folder : divided;
  const double share = source.validation;
  const auto all = [](const std::string&) { return true; };
  const auto is_validation = [&](const std::string& name) { return number_of(name) < share; };
  if (divided.empty() && share <= 0)
    fail_usage("{} has no train/. Pass --validation 0.1 to divide its classes.", folder.string());
  if (!divided.empty() && !validation.empty() && share > 0)
    fail_usage("{} has val/, and --validation makes another one. Omit it.", folder.string());
  require(divided.empty() || share > 0 || !validation.empty() || !test.empty(),
          "{} has train/, but neither val/ nor test/. Add one of them, or pass --validation 0.1.",
          folder.string());
  Parts parts;
  parts.classes = class_names(train);
  const auto part_in = [&](const fs::path& of) {
    require_same_classes(train, parts.classes, of, class_names(of));
    return find_part(of, parts.classes, all);
  };
  parts.train =
      find_part(train, parts.classes, [&](const auto& name) { return !is_validation(name); });
  if (share > 0) parts.validation = find_part(train, parts.classes, is_validation);
  if (divided.empty()) return parts;
  if (!validation.empty()) parts.validation = part_in(validation);
  if (!test.empty()) parts.test = part_in(test);
  return parts;
}

/// Files that become the stored samples of another data set.
class StoredFiles : public Dataset {
 public:
  StoredFiles(LabelledFiles files, const SampleFormat& format)
      : Dataset(format), files_(std::move(files)) {}

  std::int64_t size() const override { return std::ssize(files_.names); }
  int classes() const override { return files_.classes; }
  std::int32_t label(std::int64_t index) const override { return files_.labels[index]; }
  std::string describe() const override { return counted(size(), "image file"); }

  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const ImageSize& size = format().size;
    const Image image = read_image(files_.folder / files_.names[index]);
    std::vector<std::uint8_t> rgb(3 * size.height * size.width);
    resize(image, centre_box(image.size, size.height, size.width, 1), size.height, size.width,
           rgb.data());
    const std::int64_t pixels = size.height * size.width;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t* from = &rgb[3 * i];
      for (std::int64_t c = 0; c < size.channels; ++c) {
        const std::int64_t place = size.planes ? c * pixels + i : i * size.channels + c;
        // The weights of ITU-R BT.601, for networks of grey images.
        buffer[place] = size.channels == 3
                            ? from[c]
                            : static_cast<std::uint8_t>(
                                  (299 * from[0] + 587 * from[1] + 114 * from[2] + 500) / 1000);
      }
    }
    return buffer;
  }

 private:
  LabelledFiles files_;
};

}  // namespace

bool has_image_name(const fs::path& file) {
  static const std::set<std::string> kNames{".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"};
  std::string end = file.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  return kNames.contains(end);
}

std::unique_ptr<Dataset> images_for_use(LabelledFiles files, const SampleFormat& format) {
  if (!format.files) return std::make_unique<StoredFiles>(std::move(files), format);
  ImageOptions options;
  options.size = static_cast<int>(format.size.height);
  return photos(std::move(files), options, format.standard, "image files");
}

std::unique_ptr<Dataset> photos(LabelledFiles files, const ImageOptions& options,
                                const Standard& standard, std::string about) {
  return std::make_unique<Photos>(std::move(files), options, standard, std::move(about));
}

DatasetPair open_photos(const DataSource& source) {
  Parts parts = find_parts(source);
  DatasetPair pair;
  const auto open = [&](const char* name, Part part) {
    pair.identity += identity_of(name, part.files);
    return dataset_of(name, std::move(part), source.images, kImageNet);
  };
  pair.train = open("training", std::move(parts.train));
  if (parts.validation) pair.validation = open("validation", std::move(*parts.validation));
  if (parts.test) pair.test = open("test", std::move(*parts.test));
  pair.identity += fmt::format("classes = {}\n", fmt::join(parts.classes, ", "));
  pair.class_names = std::move(parts.classes);
  return pair;
}

DatasetPair open_test_photos(const DataSource& source, const TrainedImages& trained) {
  const fs::path &folder = source.folder, tests = part_of(folder, "test"),
                 validation = part_of(folder, "val"), held = tests.empty() ? validation : tests;
  const auto all = [](const std::string&) { return true; };
  std::vector<std::string> classes;
  const char* name = tests.empty() ? "validation" : "test";
  Part test;
  if (held.empty() && source.validation > 0) {
    Parts parts = find_parts(source);
    classes = std::move(parts.classes);
    test = std::move(*parts.validation);
  } else {
    require(!held.empty(), "{} has neither val/ nor test/. Pass a folder with one of them.",
            folder.string());
    classes = class_names(held, 1);
    test = find_part(held, classes, all);
  }
  require_known_classes(test.files.folder, classes, trained.class_names);
  relabel(test.files.labels, classes, trained.class_names);
  test.files.classes = static_cast<int>(trained.class_names.size());
  DatasetPair pair;
  pair.identity = identity_of(name, test.files);
  pair.class_names = trained.class_names;
  pair.test =
      dataset_of(name, std::move(test), source.images, standard_from(trained.normalisation, 3));
  return pair;
}

}  // namespace lockstep
