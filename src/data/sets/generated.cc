#include "src/data/sets/generated.h"

#include "src/base/check.h"

namespace lockstep {
namespace {

class Generated : public Dataset {
 public:
  enum class Part : std::uint32_t { train = 0, test = 1 };

  Generated(const GeneratedSpec& spec, std::uint64_t seed, Part part)
      : Dataset(spec.format),
        spec_(spec),
        seed_(seed),
        part_(part),
        size_(part == Part::train ? spec.train : spec.test) {}

  std::int64_t size() const override { return size_; }
  int classes() const override { return static_cast<int>(spec_.class_names.size()); }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % classes());
  }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    Random random(seed_, Purpose::generate, static_cast<std::uint32_t>(part_),
                  static_cast<std::uint32_t>(index));
    spec_.draw(label(index), random, buffer);
    return buffer;
  }
  std::string describe() const override {
    return fmt::format("{}, {} {} {}", spec_.about, size_,
                       part_ == Part::train ? "training" : "test", spec_.unit);
  }

 private:
  GeneratedSpec spec_;
  std::uint64_t seed_;
  Part part_;
  std::int64_t size_;
};

}  // namespace

OpenedData generate(const GeneratedSpec& spec, std::uint64_t seed) {
  OpenedData pair;
  pair.train = std::make_unique<Generated>(spec, seed, Generated::Part::train);
  pair.test = std::make_unique<Generated>(spec, seed, Generated::Part::test);
  pair.class_names = spec.class_names;
  pair.identity = fmt::format("{} = seed {}, {} and {}\n", spec.name, seed, spec.train, spec.test);
  return pair;
}

}  // namespace lockstep
