// Data sets of tests: all that a set must tell, stored bytes of noise, and reading one sample.
#pragma once

#include <string>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// `size` samples of the shape `sample`. Their classes take turns.
class TestDataset : public Dataset {
 public:
  TestDataset(std::int64_t size, int classes, Shape sample, const SampleFormat& format = {})
      : Dataset(format), size_(size), classes_(classes), sample_(sample) {}

  std::int64_t size() const override { return size_; }
  int classes() const override { return classes_; }
  Shape sample_shape() const override { return sample_; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % classes_);
  }
  std::string describe() const override { return "samples of a test"; }

 private:
  const std::int64_t size_;
  const int classes_;
  const Shape sample_;
};

/// Samples whose stored bytes are noise. Each has its own range of values; some are all alike.
class StoredNoise : public TestDataset {
 public:
  /// `stored`: false: a device cannot hold the samples, which are the same.
  StoredNoise(std::int64_t size, const SampleFormat& noise, bool stored = true)
      : TestDataset(size, 10, noise.shape(), stored ? noise : SampleFormat{}), noise_(noise) {}

  const std::uint8_t* stored(std::int64_t index, std::uint8_t* bytes) const override {
    Random random(3, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    const std::uint32_t low = random.below(200), range = 1 + random.below(256 - low);
    for (std::size_t i = 0; i < noise_.bytes(); ++i)
      bytes[i] = static_cast<std::uint8_t>(low + (index % 9 == 0 ? 0 : random.below(range)));
    return bytes;
  }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    if (format().kind != SampleFormat::Kind::values) return Dataset::read(index, random, out, type);
    StoredNoise(size(), noise_).read(index, random, out, type);
  }

 private:
  const SampleFormat noise_;
};

/// A sample as fp32; without `random` as evaluation sees it.
inline std::vector<float> read(const Dataset& set, std::int64_t index, Random* random = nullptr) {
  std::vector<float> values(set.sample_shape().count());
  set.read(index, random, values.data(), Type::f32);
  return values;
}

}  // namespace lockstep
