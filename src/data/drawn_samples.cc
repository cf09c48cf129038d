#include "src/data/drawn_samples.h"

#include "src/data/loader.h"

namespace lockstep {
BalancedSamples::BalancedSamples(const Dataset& data)
    : size_(data.size()), classes_(data.classes()) {
  for (std::int64_t i = 0; i < size_; ++i) classes_[data.label(i)].push_back(i);
  std::erase_if(classes_, [](const auto& samples) { return samples.empty(); });
}

std::vector<std::uint32_t> BalancedSamples::draw(std::uint64_t seed, std::uint32_t epoch) const {
  struct Pass {
    std::int64_t number = -1;
    std::vector<std::uint32_t> order = {};
  };
  const auto count = std::ssize(classes_);
  std::vector<Pass> passes(classes_.size());
  std::vector<std::uint32_t> drawn(size_);
  // Entry `all` of the whole run belongs to class c, as the sample number `own` of its passes. So
  // an epoch follows from its number alone, and a resumed run needs no state of the ones before.
  for (std::int64_t entry = 0; entry < size_; ++entry) {
    const std::int64_t all = epoch * size_ + entry, c = all % count, own = all / count;
    const std::vector<std::uint32_t>& samples = classes_[c];
    const std::int64_t number = own / std::ssize(samples);
    Pass& pass = passes[c];
    // A class has one order at a time, because its passes come one after the other.
    if (pass.number != number) {
      Random random(seed, kStream, number, c);
      pass = {number, shuffled(random, std::ssize(samples))};
    }
    drawn[entry] = samples[pass.order[own % std::ssize(samples)]];
  }
  return drawn;
}

}  // namespace lockstep
