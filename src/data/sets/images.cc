#include "src/data/sets/images.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/data/checksum.h"
#include "src/data/normalisation.h"

namespace lockstep {
namespace {

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
  return std::make_unique<StoredImages>(format, std::move(store), classes, about);
}

/// Mean and deviation of each channel; a deviation is at least 1.
Normalisation normalisation_of(const ImageStore& store) {
  const std::size_t channels = store.size.channels;
  // The sums are whole numbers, and exact up to 2^53. So they do not depend on the order of the
  // images.
  std::array<double, 4> sum{}, squares{};
  for (std::size_t i = 0; i < store.pixels.size(); ++i) {
    const double value = store.pixels[i];
    sum[i % channels] += value;
    squares[i % channels] += value * value;
  }
  const double count = static_cast<double>(store.pixels.size()) / channels;
  Normalisation normalisation;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count, variance = squares[c] / count - mean * mean;
    normalisation.mean[c] = mean;
    normalisation.deviation[c] = std::sqrt(std::max(variance, 1.0));
  }
  return normalisation;
}

}  // namespace

OpenedData image_datasets(ImageStore train, ImageStore test, std::vector<std::string> class_names,
                          const std::string& name, const std::string& from) {
  expect(train.size == test.size && !train.size.planes && train.size.channels <= 4,
         "training and test images are of one size");
  const Normalisation normalisation = normalisation_of(train);
  const int classes = class_names.size();
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
  pair.test = part_of("test", std::move(test), pair.class_names.size(), normalisation, name, from,
                      pair.identity);
  return pair;
}

}  // namespace lockstep
