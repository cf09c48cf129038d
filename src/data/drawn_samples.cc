#include "src/data/drawn_samples.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/base/error.h"
#include "src/data/loader.h"

namespace lockstep {
namespace {

/// Uniform in 0 .. count-1, without bias.
std::int64_t below(Random& random, std::int64_t count) {
  const int unused = std::countl_zero(static_cast<std::uint64_t>(count));
  for (;;) {
    const std::uint64_t high = random.next(), low = random.next();
    const auto value = static_cast<std::int64_t>((high << 32 | low) >> unused);
    if (value < count) return value;
  }
}

}  // namespace

BalancedSamples::BalancedSamples(const Dataset& data)
    : size_(data.size()), classes_(data.classes()) {
  for (std::int64_t i = 0; i < size_; ++i)
    classes_[data.label(i)].push_back(static_cast<std::uint32_t>(i));
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
  for (std::int64_t entry = 0; entry < size_; ++entry) {
    const std::int64_t all = epoch * size_ + entry, c = all % count, own = all / count;
    const std::vector<std::uint32_t>& samples = classes_[c];
    const std::int64_t number = own / std::ssize(samples);
    Pass& pass = passes[c];
    if (pass.number != number) {
      Random random(seed, kStream, static_cast<std::uint32_t>(number),
                    static_cast<std::uint32_t>(c));
      pass = {number, shuffled(random, std::ssize(samples))};
    }
    drawn[entry] = samples[pass.order[own % std::ssize(samples)]];
  }
  return drawn;
}

WeightedSamples::WeightedSamples(const std::vector<double>& weights) {
  int exponent = 0;  // the largest weight is below 2^exponent
  std::frexp(*std::ranges::max_element(weights), &exponent);
  const int shift = 62 - std::bit_width(weights.size()) - exponent;
  for (const double weight : weights) {
    weights_.push_back(std::llround(std::ldexp(weight, shift)));
    sum_ += weights_.back();
  }
  expect(sum_ > 0, "samples are drawn by weights that are all 0");
}

std::vector<std::uint32_t> WeightedSamples::draw(std::uint64_t seed, std::uint32_t epoch) const {
  // The weights lie side by side, each as wide as its product with their number. A point lies in
  // each part of the width sum_, all at the same random place of their parts. All is below 2^63.
  Random random(seed, kStream, epoch, 0);
  std::int64_t point = below(random, sum_);  // the next one, from the beginning of the sample
  std::vector<std::uint32_t> drawn;
  for (std::size_t sample = 0; sample < weights_.size(); ++sample) {
    const std::int64_t width = weights_[sample] * std::ssize(weights_);
    for (; point < width; point += sum_) drawn.push_back(static_cast<std::uint32_t>(sample));
    point -= width;
  }
  return drawn;
}

}  // namespace lockstep
