#include "src/data/sets/generated.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/data/augment.h"
#include "src/data/sets/mnist.h"

namespace lockstep {
namespace {

class Generated : public Dataset {
 public:
  enum class Part : std::uint32_t { train = 0, test = 1 };

  Generated(const GeneratedSpec& spec, std::uint64_t seed, Part part)
      : spec_(spec),
        seed_(seed),
        part_(part),
        size_(part == Part::train ? spec.train : spec.test) {}

  std::int64_t size() const override { return size_; }
  int classes() const override { return static_cast<int>(spec_.class_names.size()); }
  Shape sample_shape() const override { return is_image() ? crop_shape() : digit_shape(); }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % classes());
  }
  void read(std::int64_t index, Random* random, void* out, Type type) const override {
    std::uint8_t bytes[std::max(kImageValues, kDigitPixels)];
    record(index, bytes);
    is_image() ? read_image(bytes, random, out, type, crop_padding())
               : read_digit(bytes, out, type);
  }
  bool crops() const override { return is_image(); }
  Records records() const override { return spec_.records; }
  void record(std::int64_t index, std::uint8_t* bytes) const override {
    Random random(seed_, Purpose::generate, static_cast<std::uint32_t>(part_),
                  static_cast<std::uint32_t>(index));
    spec_.draw(label(index), random, bytes);
  }
  std::string describe() const override {
    return fmt::format("{}, {} {} images", spec_.about, size_,
                       part_ == Part::train ? "training" : "test");
  }

 private:
  bool is_image() const { return spec_.records == Records::images; }

  GeneratedSpec spec_;
  std::uint64_t seed_;
  Part part_;
  std::int64_t size_;
};

}  // namespace

DatasetPair generate(const GeneratedSpec& spec, std::uint64_t seed) {
  expect(spec.records != Records::none, "a generated set draws records");
  DatasetPair pair;
  pair.train = std::make_unique<Generated>(spec, seed, Generated::Part::train);
  pair.test = std::make_unique<Generated>(spec, seed, Generated::Part::test);
  pair.class_names = spec.class_names;
  pair.identity = fmt::format("{} = seed {}, {} and {}\n", spec.name, seed, spec.train, spec.test);
  return pair;
}

}  // namespace lockstep
