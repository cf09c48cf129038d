#include "src/data/sets/images.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/data/normalisation.h"

namespace lockstep {
namespace {

class StoredImages : public Dataset {
 public:
  StoredImages(const SampleFormat& format, ImageStore store, int classes, std::string about)
      : Dataset(format), store_(std::move(store)), classes_(classes), about_(std::move(about)) {}

  std::int64_t size() const override { return std::ssize(store_.labels); }
  int classes() const override { return classes_; }
  std::int32_t label(std::int64_t index) const override { return store_.labels[index]; }
  std::string file(std::int64_t index) const override {
    return store_.files.empty() ? "" : store_.files[index];
  }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t*) const override {
    return store_.pixels.data() + index * store_.size.count();
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    return store_.pixels.size() + store_.labels.size() * sizeof(std::int32_t);
  }

 private:
  ImageStore store_;
  int classes_;
  std::string about_;
};

/// The data set of one part, "training" or "test"; `identity` gains its line.
std::unique_ptr<Dataset> part_of(const char* part, ImageStore store, int classes,
                                 const Normalisation& normalisation, const std::string& name,
                                 const std::string& from, std::string& identity) {
  identity += fmt::format("{} images = {}, crc32c {:08x} and {:08x}\n", part, store.labels.size(),
                          crc32c_of(store.pixels), crc32c_of(store.labels));
  const std::string about =
      fmt::format("{}, {} {} images of {}x{}x{} in {} classes from {}", name, store.labels.size(),
                  part, store.size.height, store.size.width, store.size.channels, classes, from);
  const SampleFormat format{.kind = SampleFormat::Kind::images,
                            .size = store.size,
                            .normalisation = normalisation,
                            .moved = true,
                            .padding = kMoves};
  return stored_images(format, std::move(store), classes, about);
}

/// Mean and deviation of each channel; a deviation is at least 1.
Normalisation normalisation_of(const ImageStore& store) {
  const auto channels = static_cast<std::size_t>(store.size.channels);
  std::array<double, 4> sum{}, squares{};
  for (std::size_t i = 0; i < store.pixels.size(); ++i) {
    const double value = store.pixels[i];
    sum[i % channels] += value;
    squares[i % channels] += value * value;
  }
  const double count = static_cast<double>(store.pixels.size()) / static_cast<double>(channels);
  Normalisation normalisation;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count, variance = squares[c] / count - mean * mean;
    normalisation.mean[c] = static_cast<float>(mean);
    normalisation.deviation[c] = static_cast<float>(std::sqrt(std::max(variance, 1.0)));
  }
  return normalisation;
}

}  // namespace

std::unique_ptr<Dataset> stored_images(const SampleFormat& format, ImageStore store, int classes,
                                       std::string about) {
  return std::make_unique<StoredImages>(format, std::move(store), classes, std::move(about));
}

OpenedData image_datasets(ImageStore train, ImageStore test, std::vector<std::string> class_names,
                          const std::string& name, const std::string& from) {
  expect(train.size == test.size && !train.size.planes && train.size.channels <= 4,
         "training and test images are of one size");
  const Normalisation normalisation = normalisation_of(train);
  const int classes = static_cast<int>(class_names.size());
  OpenedData pair;
  pair.class_names = std::move(class_names);
  pair.train =
      part_of("training", std::move(train), classes, normalisation, name, from, pair.identity);
  pair.test = part_of("test", std::move(test), classes, normalisation, name, from, pair.identity);
  return pair;
}

OpenedData test_images(ImageStore test, const DataOfCheckpoint& trained, const std::string& name,
                       const std::string& from) {
  const Normalisation normalisation = normalisation_from(trained.normalisation, test.size.channels);
  OpenedData pair;
  pair.class_names = trained.class_names;
  pair.test = part_of("test", std::move(test), static_cast<int>(pair.class_names.size()),
                      normalisation, name, from, pair.identity);
  return pair;
}

}  // namespace lockstep
