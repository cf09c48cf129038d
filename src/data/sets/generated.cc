#include "src/data/sets/generated.h"

#include "src/base/check.h"

namespace lockstep {
namespace {

class Generated : public Dataset {
 public:
  Generated(const GeneratedSpec& spec, std::uint64_t seed, bool test)
      : Dataset(spec.format), spec_(spec), seed_(seed), test_(test) {}

  std::int64_t size() const override { return test_ ? spec_.test : spec_.train; }
  int classes() const override { return spec_.class_names.size(); }
  std::int32_t label(std::int64_t index) const override { return index % classes(); }
  const std::uint8_t* stored(std::int64_t index, std::uint8_t* buffer) const override {
    // A sample depends on seed, part and index only. So it needs no memory, and every rank makes
    // the same one.
    Random random(seed_, Purpose::generate, test_, index);
    spec_.draw(label(index), random, buffer);
    return buffer;
  }
  std::string describe() const override {
    return fmt::format("{}, {} {} {}", spec_.about, size(), test_ ? "test" : "training",
                       spec_.unit);
  }

 private:
  GeneratedSpec spec_;
  std::uint64_t seed_;
  bool test_;
};

}  // namespace

OpenedData generate(const GeneratedSpec& spec, std::uint64_t seed) {
  OpenedData pair;
  pair.train = std::make_unique<Generated>(spec, seed, /*test=*/false);
  pair.test = std::make_unique<Generated>(spec, seed, /*test=*/true);
  pair.class_names = spec.class_names;
  pair.identity = fmt::format("{} = seed {}, {} and {}\n", spec.name, seed, spec.train, spec.test);
  return pair;
}

}  // namespace lockstep
