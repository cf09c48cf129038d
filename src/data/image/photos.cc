#include "src/data/image/photos.h"

#include <algorithm>
#include <utility>

#include "src/base/check.h"
#include "src/base/plural.h"
#include "src/base/text.h"
#include "src/data/image/image.h"
#include "src/data/normalisation.h"
#include "src/data/photo_augmentations.h"
#include "src/data/rows/class_folders.h"

namespace lockstep {
namespace {

// Three stages lead from a file to a sample. EncodedFiles reads the bytes, and notices a file that
// has changed. DecodedPhotos decodes and resizes it for a network that was trained on photos.
// DecodedFiles does so for a network of another data set: its samples are bytes, which samples.cc
// treats as those of that set.
class EncodedFiles : public EncodedImages {
 public:
  using EncodedImages::EncodedImages;
  std::vector<std::uint8_t> read(std::int64_t index) const override {
    const std::string path = files().path(index);
    std::vector<std::uint8_t> bytes = read_image_bytes(path);
    // The identity of the data was made at start. A file that changed since then would make this
    // run differ from its resume.
    if (!files().bytes.empty()) {
      require(bytes.size() == files().bytes[index],
              "{} has changed during the run: it had {} bytes and has {}. Restore it.",
              one_line(path), files().bytes[index], bytes.size());
    }
    if (!files().checksums.empty()) {
      require(checksum_of_ends(bytes) == files().checksums[index],
              "{} has changed during the run: it has other contents. Restore it.", one_line(path));
    }
    return bytes;
  }
};

/// A data set of `images` whose samples are options.size x options.size x options.channels(), as of
/// SampleFormat::Kind::values. Training draws a crop (random_box), the flips, and the changes of
/// colours. It decodes JPEG files at a lower resolution if enough pixels are left. Evaluation sees
/// the middle, 7/8 of the shorter edge, and decodes in full, as other programs do. `normalisation`:
/// of pixels from 0 to 255. read() throws DamagedImage if the file cannot be decoded.
class DecodedPhotos : public Dataset {
 public:
  DecodedPhotos(std::shared_ptr<const EncodedImages> images, const ImageOptions& options,
                const Normalisation& normalisation, std::string about)
      : Dataset({.kind = SampleFormat::Kind::values,
                 .size = {options.size, options.size, options.channels()},
                 .normalisation = normalisation,
                 .files = true}),
        images_(std::move(images)),
        options_(options),
        about_(std::move(about)) {}

  std::int64_t size() const override { return images_->files().size(); }
  int classes() const override { return images_->files().classes; }
  std::int32_t label(std::int64_t index) const override { return images_->files().labels[index]; }
  std::string file(std::int64_t index) const override { return images_->files().path(index); }
  std::uint64_t fingerprint(std::int64_t index) const override {
    return images_->files().fingerprint(index);
  }
  std::vector<std::uint8_t> content(std::int64_t index) const override {
    return images_->read(index);
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override { return images_->memory(); }
  Shape sample_shape() const override {
    const ImageSize& size = format().size;
    return {1, size.height, size.width, size.channels};
  }

  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    const int edge = options_.size;
    const std::vector<std::uint8_t> file = images_->read(index);
    const std::string name = images_->files().path(index);
    const ImageSize size = image_size(file, name);
    Box box = centre_box(size, edge, edge, seen_share(format()));
    bool mirrored = false, inverted = false;
    if (random != nullptr) {
      const bool mirrors = options_.flip == "horizontal" || options_.flip == "both",
                 inverts = options_.flip == "vertical" || options_.flip == "both";
      box = random_box(size, options_.crop_area, *random);
      // Both numbers are drawn with every --flip, so the option changes neither the crop nor the
      // colours.
      mirrored = random->below(2) == 1 && mirrors;
      inverted = random->below(2) == 1 && inverts;
    }
    // A lower resolution decodes faster, and the pixels are averaged anyway. Evaluation decodes in
    // full, because its accuracy is compared with that of other programs.
    const ImagePart part = decode_part(file, name, box, random != nullptr ? edge : 0);
    Image seen{{edge, edge, 3}, std::vector<std::uint8_t>(std::int64_t{3} * edge * edge)};
    resize(part.image, part.box, edge, edge, seen.pixels.data());
    flip(seen, mirrored, inverted);
    if (random != nullptr && options_.augmentations)
      options_.augmentations->each([&](const auto& one) { one.apply(seen, *random); });
    dispatch(type, [&]<class T>(T*) { write(seen.pixels, static_cast<T*>(out)); });
  }

 private:
  /// Standardises the pixels.
  template <class T>
  void write(const std::vector<std::uint8_t>& pixels, T* out) const {
    const Normalisation& normalisation = format().normalisation;
    std::array<float, 3> mean{}, factor{};
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] = normalisation.mean[c];
      factor[c] = 1 / normalisation.deviation[c];
    }
    const std::int64_t count = format().size.height * format().size.width;
    const std::uint8_t* from = pixels.data();
    if (format().size.channels == 1) {
      for (std::int64_t i = 0; i < count; ++i, from += 3)
        out[i] = T((grey_of(from) - mean[0]) * factor[0]);
      return;
    }
    // Three channels do not divide a vector. Blocks of 16 pixels do, with means and factors in
    // their order.
    constexpr std::size_t kBlock = 48;  // values; vectors of any width divide it
    std::array<float, kBlock> means, factors;
    for (std::size_t i = 0; i < kBlock; ++i) {
      means[i] = mean[i % 3];
      factors[i] = factor[i % 3];
    }
    std::int64_t done = 0;
    for (; done + 16 <= count; done += 16, from += kBlock, out += kBlock) {
      for (std::size_t i = 0; i < kBlock; ++i) out[i] = T((from[i] - means[i]) * factors[i]);
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(3 * (count - done)); ++i)
      out[i] = T((from[i] - means[i]) * factors[i]);
  }

  std::shared_ptr<const EncodedImages> images_;
  ImageOptions options_;
  std::string about_;
};

/// Files that become the stored samples of another data set.
class DecodedFiles : public Dataset {
 public:
  DecodedFiles(LabelledFiles files, const SampleFormat& format)
      : Dataset(format), files_(std::move(files)) {}

  std::int64_t size() const override { return files_.size(); }
  int classes() const override { return files_.classes; }
  std::int32_t label(std::int64_t index) const override { return files_.labels[index]; }
  std::string describe() const override { return counted(size(), "image file"); }

  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    const ImageSize& size = format().size;
    const Image image = read_image(files_.path(index));
    std::vector<std::uint8_t> rgb(3 * size.height * size.width);
    resize(image, centre_box(image.size, size.height, size.width, seen_share(format())),
           size.height, size.width, rgb.data());
    const std::int64_t pixels = size.height * size.width;
    for (std::int64_t i = 0; i < pixels; ++i) {
      const std::uint8_t* from = &rgb[3 * i];
      for (std::int64_t c = 0; c < size.channels; ++c) {
        const std::int64_t place = size.planes ? c * pixels + i : i * size.channels + c;
        buffer[place] = size.channels == 3 ? from[c] : grey_of(from);
      }
    }
    return buffer;
  }

 private:
  LabelledFiles files_;
};

/// Mean and deviation of the images of ImageNet, as torchvision's pretrained networks expect them.
/// One channel: those of its grey images.
Normalisation imagenet_normalisation(std::int64_t channels) {
  if (channels == 1) return {{117.0f, 0, 0, 0}, {57.5f, 1, 1, 1}};
  return {{123.675f, 116.28f, 103.53f, 0}, {58.395f, 57.12f, 57.375f, 1}};
}

}  // namespace

std::size_t EncodedImages::memory() const {
  std::size_t total = files_.labels.size() * (2 * sizeof(std::int32_t) + sizeof(std::uint64_t));
  for (const std::string& name : files_.names) total += sizeof name + name.capacity();
  return total;
}

std::shared_ptr<const EncodedImages> encoded_images(LabelledFiles files) {
  return std::make_shared<EncodedFiles>(std::move(files));
}

std::int64_t usual_edge(const EncodedImages& images) {
  constexpr std::int64_t kMost = 9;
  std::vector<std::int64_t> edges;
  const std::int64_t all = images.files().size(), count = std::min(kMost, all);
  for (std::int64_t i = 0; i < count; ++i) {
    // Files are sorted by class, so the images are spread over the classes.
    const std::int64_t index = i * all / count;
    try {
      const ImageSize size = image_size(images.read(index), images.files().path(index));
      edges.push_back(std::min(size.height, size.width));
    } catch (const Error&) {  // the check of all images names it
    }
  }
  std::ranges::sort(edges);
  return edges.empty() ? 0 : edges[edges.size() / 2];
}

std::int64_t usual_edge_in(const std::filesystem::path& folder) {
  constexpr std::size_t kClasses = 3, kEach = 3;
  LabelledFiles some;
  try {
    const Folders root = parts_in(folder);
    const Folders train = root.parts[kTrain].empty() ? root : folders_in(root.parts[kTrain]);
    some.folder = train.path.string();
    const auto add = [&](const std::string& inner) {
      std::vector<FoundFile> files = files_of_class(train.path / inner);
      std::erase_if(files, [](const FoundFile& file) { return !has_image_name(file.name); });
      files.resize(std::min(kEach, files.size()));
      for (const FoundFile& file : files) some.add(inner + file.name, 0, file.bytes);
    };
    for (std::size_t i = 0; i < std::min(kClasses, train.classes.size()); ++i)
      add(train.classes[i] + "/");
    if (some.size() == 0) add("");  // a table may name the classes of files
  } catch (const Error&) {          // opening the data set reports it
  }
  return usual_edge(*encoded_images(std::move(some)));
}

/// 224 of 256 pixels, as torchvision evaluates photos. Other samples are whole images.
double seen_share(const SampleFormat& format) { return format.files ? 0.875 : 1; }

std::unique_ptr<Dataset> images_for_use(LabelledFiles files, const SampleFormat& format) {
  if (!format.files) return std::make_unique<DecodedFiles>(std::move(files), format);
  ImageOptions options;
  options.size = format.size.height;
  options.colours = format.size.channels == 1 ? "grey" : "rgb";
  return std::make_unique<DecodedPhotos>(encoded_images(std::move(files)), options,
                                         format.normalisation, "image files");
}

OpenedData photo_sets(ImageIndex index, PartImages images, const DataSource& source,
                      const DataOfCheckpoint* trained) {
  const ImageOptions& options = source.images;
  const Normalisation normalisation =
      trained ? normalisation_from(trained->normalisation, options.channels())
              : imagenet_normalisation(options.channels());
  const bool packed = std::ranges::any_of(index.parts, &LabelledFiles::packed);
  const auto log = std::make_shared<DamageLog>(
      options.skips(),
      fmt::format(
          "Pass --check-images {} to go on without it. New runs find such files at start by {}.",
          options.check_that_skips(),
          packed ? "pack_images --check-images decode" : "--check-images decode"));
  OpenedData sets;
  sets.identity = index.identity();
  sets.class_names = trained ? trained->class_names : index.classes;
  const auto open = [&](SetPart part) -> std::unique_ptr<Dataset> {
    if (!images[part]) return nullptr;
    std::string about = fmt::format(
        "{} {} images in {} classes from {}, resized to {}x{}", images[part]->files().size(),
        kPartNames[part], sets.class_names.size(), index.place(source), options.size, options.size);
    if (index.others > 0)
      about += fmt::format("; {} left out", counted(index.others, "other file"));
    auto set = std::make_unique<DecodedPhotos>(std::move(images[part]), options, normalisation,
                                               std::move(about));
    set->log_damage(log);
    return set;
  };
  if (!trained) {
    sets.train = open(kTrain);
    sets.validation = open(kValidation);
  }
  sets.test = open(!trained || images[kTest] ? kTest : kValidation);
  sets.notes = std::move(index.notes);
  return sets;
}

OpenedData photo_files(ImageIndex index, const DataSource& source,
                       const DataOfCheckpoint* trained) {
  PartImages images;
  for (std::size_t part = 0; part < kParts; ++part)
    if (index.parts[part].size() > 0) images[part] = encoded_images(index.parts[part]);
  return photo_sets(std::move(index), std::move(images), source, trained);
}

}  // namespace lockstep
