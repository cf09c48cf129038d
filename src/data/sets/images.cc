#include "src/data/sets/images.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/base/check.h"
#include "src/base/crc32c.h"
#include "src/data/augment.h"

namespace lockstep {
namespace {

class StoredImages : public Dataset {
 public:
  StoredImages(ImageStore store, Standard standard, int classes, std::string about)
      : store_(std::move(store)), standard_(standard), classes_(classes), about_(std::move(about)) {
    pad_crops(kMoves);
  }

  std::int64_t size() const override { return std::ssize(store_.labels); }
  int classes() const override { return classes_; }
  Shape sample_shape() const override {
    return {1, store_.size.height, store_.size.width, store_.size.channels};
  }
  std::int32_t label(std::int64_t index) const override { return store_.labels[index]; }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    read_moved(stored(index), store_.size, standard_, random, out, type, crop_padding(),
               alternate_flips());
  }
  bool crops() const override { return true; }
  Records records() const override { return Records::whole; }
  ImageForm form() const override { return {store_.size, standard_}; }
  void standardise(const Standard& standard) override { standard_ = standard; }
  void record(std::int64_t index, std::uint8_t* bytes) const override {
    std::copy_n(stored(index), store_.size.count(), bytes);
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    return store_.pixels.size() + store_.labels.size() * sizeof(std::int32_t);
  }

 private:
  const std::uint8_t* stored(std::int64_t index) const {
    return store_.pixels.data() + index * store_.size.count();
  }

  ImageStore store_;
  Standard standard_;
  int classes_;
  std::string about_;
};

template <class T>
std::uint32_t checksum(const std::vector<T>& values) {
  return crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

/// The data set of one part, "training" or "test"; `identity` gains its line.
std::unique_ptr<Dataset> part_of(const char* part, ImageStore store, int classes,
                                 const Standard& standard, const std::string& name,
                                 const std::string& from, std::string& identity) {
  identity += fmt::format("{} images = {}, crc32c {:08x} and {:08x}\n", part, store.labels.size(),
                          checksum(store.pixels), checksum(store.labels));
  const std::string about =
      fmt::format("{}, {} {} images of {}x{}x{} in {} classes from {}", name, store.labels.size(),
                  part, store.size.height, store.size.width, store.size.channels, classes, from);
  return std::make_unique<StoredImages>(std::move(store), standard, classes, about);
}

}  // namespace

Standard standard_of(const ImageStore& store) {
  const auto channels = static_cast<std::size_t>(store.size.channels);
  std::array<double, 4> sum{}, squares{};
  for (std::size_t i = 0; i < store.pixels.size(); ++i) {
    const double value = store.pixels[i];
    sum[i % channels] += value;
    squares[i % channels] += value * value;
  }
  const double count = static_cast<double>(store.pixels.size()) / static_cast<double>(channels);
  Standard standard;
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / count, variance = squares[c] / count - mean * mean;
    standard.mean[c] = static_cast<float>(mean);
    standard.deviation[c] = static_cast<float>(std::sqrt(std::max(variance, 1.0)));
  }
  return standard;
}

void read_moved(const std::uint8_t* pixels, const ImageSize& size, const Standard& standard,
                Random* random, void* out, Type type, int most, bool alternate) {
  const Move move = random ? Move::draw(*random, most, alternate) : Move{};
  std::array<float, 4> factor{};
  for (std::size_t c = 0; c < factor.size(); ++c) factor[c] = 1 / standard.deviation[c];
  const std::int64_t plane = size.height * size.width;
  dispatch(type, [&]<class T>(T*) {
    T* y = static_cast<T*>(out);
    const auto height = static_cast<int>(size.height), width = static_cast<int>(size.width);
    for (int row = 0; row < height; ++row) {
      const std::int64_t from_row = reflected(row + move.top, height) * size.width;
      for (int column = 0; column < width; ++column) {
        const int x = move.mirror ? width - 1 - column : column;
        const std::int64_t from = from_row + reflected(x + move.left, width);
        for (std::int64_t c = 0; c < size.channels; ++c) {
          const std::uint8_t value =
              pixels[size.planes ? c * plane + from : from * size.channels + c];
          const auto channel = static_cast<std::size_t>(c);
          *y++ = T((static_cast<float>(value) - standard.mean[channel]) * factor[channel]);
        }
      }
    }
  });
}

DatasetPair image_datasets(ImageStore train, ImageStore test, std::vector<std::string> class_names,
                           const std::string& name, const std::string& from) {
  expect(train.size == test.size && !train.size.planes && train.size.channels <= 4,
         "training and test images are of one size");
  const Standard standard = standard_of(train);
  const int classes = static_cast<int>(class_names.size());
  DatasetPair pair;
  pair.class_names = std::move(class_names);
  pair.train = part_of("training", std::move(train), classes, standard, name, from, pair.identity);
  pair.test = part_of("test", std::move(test), classes, standard, name, from, pair.identity);
  return pair;
}

DatasetPair test_images(ImageStore test, std::vector<std::string> class_names,
                        const Standard& standard, const std::string& name,
                        const std::string& from) {
  const int classes = static_cast<int>(class_names.size());
  DatasetPair pair;
  pair.class_names = std::move(class_names);
  pair.test = part_of("test", std::move(test), classes, standard, name, from, pair.identity);
  return pair;
}

void require_training_images(const std::filesystem::path& training) {
  std::error_code unreadable;
  require(std::filesystem::exists(training, unreadable),
          "the checkpoint holds no mean and deviation of its training images, and {} does not "
          "exist; put the training images there, or train anew",
          training.string());
}

}  // namespace lockstep
