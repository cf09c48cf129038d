#include "net/parameters.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/base/random.h"

namespace lockstep {

std::int64_t Layout::trainable() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.trained()) total += parameter.range.count;
  }
  return total;
}

Range Layout::range_of(int layer) const {
  const auto first = std::ranges::find(parameters, layer, &Parameter::layer);
  expect(first != parameters.end(), "a layer has no parameters");
  return *std::ranges::find(layers, first->range.begin, &Range::begin);
}

std::uint32_t hash_of(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (const unsigned char letter : name) hash = (hash ^ letter) * 16777619u;
  return hash;
}

namespace {

float draw(Init::Kind kind, Random& random) {
  if (kind == Init::Kind::constant) return 1;
  return kind == Init::Kind::uniform ? random.uniform(-1, 1) : random.truncated_normal();
}

/// For the first filters: 1 at the own channel of the middle tap, 0 elsewhere. Filters beyond the
/// number of channels keep their random values.
void let_through(const Parameter& filters, float* values) {
  const std::int64_t row = filters.shape.row(), channels = filters.shape.back(),
                     middle = row / channels / 2 * channels;
  for (std::int64_t n = 0; n < std::min(filters.shape[0], channels); ++n) {
    std::fill_n(values + n * row, row, 0.0f);
    values[n * row + middle + n] = 1;
  }
}

}  // namespace

void initialize(const Layout& layout, std::uint64_t seed, float* parameters) {
  for (const Parameter& parameter : layout.parameters) {
    // The name is the stream: a parameter begins the same whatever else the model holds.
    Random random(seed, Purpose::initialize, 0, hash_of(parameter.name));
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      parameters[i] = parameter.init.scale * draw(parameter.init.kind, random);
    }
    if (parameter.init.dirac) let_through(parameter, parameters + parameter.range.begin);
  }
}

}  // namespace lockstep
