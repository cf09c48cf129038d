#include "src/data/images.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "src/check.h"
#include "src/crc32c.h"

namespace lockstep {
namespace {

constexpr std::int64_t kMoves = 4;

/// Of `extent` elements that are reflected at both ends: the one at place `i`.
std::int64_t reflected(std::int64_t i, std::int64_t extent) {
  if (extent == 1) return 0;
  const std::int64_t period = 2 * (extent - 1), place = ((i % period) + period) % period;
  return std::min(place, period - place);
}

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

class StoredImages : public Dataset {
 public:
  StoredImages(ImageStore store, Standard standard, int classes, std::string about)
      : store_(std::move(store)),
        standard_(standard),
        classes_(classes),
        about_(std::move(about)) {}

  std::int64_t size() const override { return std::ssize(store_.labels); }
  int classes() const override { return classes_; }
  Shape sample_shape() const override {
    return {1, store_.size.height, store_.size.width, store_.size.channels};
  }
  std::int32_t label(std::int64_t index) const override {
    return store_.labels[static_cast<std::size_t>(index)];
  }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    read_moved(store_.pixels.data() + index * store_.size.count(), store_.size, standard_, random,
               out, type);
  }
  std::string describe() const override { return about_; }
  std::size_t bytes() const override {
    return store_.pixels.size() + store_.labels.size() * sizeof(std::int32_t);
  }

 private:
  ImageStore store_;
  Standard standard_;
  int classes_;
  std::string about_;
};

template <class T>
std::uint32_t checksum(const std::vector<T>& values) {
  return crc32c({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

}  // namespace

void read_moved(const std::uint8_t* pixels, const ImageSize& size, const Standard& standard,
                Random* random, void* out, Type type) {
  std::int64_t top = 0, left = 0;
  bool mirror = false;
  if (random) {
    top = static_cast<std::int64_t>(random->below(2 * kMoves + 1)) - kMoves;
    left = static_cast<std::int64_t>(random->below(2 * kMoves + 1)) - kMoves;
    mirror = random->below(2) == 1;
  }
  std::array<float, 4> factor{};
  for (std::size_t c = 0; c < factor.size(); ++c) factor[c] = 1 / standard.deviation[c];
  const std::int64_t plane = size.height * size.width;
  dispatch(type, [&]<class T>(T*) {
    T* y = static_cast<T*>(out);
    for (std::int64_t row = 0; row < size.height; ++row) {
      const std::int64_t from_row = reflected(row + top, size.height) * size.width;
      for (std::int64_t column = 0; column < size.width; ++column) {
        const std::int64_t x = mirror ? size.width - 1 - column : column,
                           from = from_row + reflected(x + left, size.width);
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
  for (auto& [part, store, set] :
       {std::tuple("training", &train, &pair.train), {"test", &test, &pair.test}}) {
    pair.identity +=
        fmt::format("{} images = {}, crc32c {:08x} and {:08x}\n", part, store->labels.size(),
                    checksum(store->pixels), checksum(store->labels));
    const std::string about = fmt::format("{}, {} {} images of {}x{}x{} in {} classes from {}",
                                          name, store->labels.size(), part, store->size.height,
                                          store->size.width, store->size.channels, classes, from);
    *set = std::make_unique<StoredImages>(std::move(*store), standard, classes, about);
  }
  return pair;
}

}  // namespace lockstep
