#include "net/parameters.h"

#include "src/random.h"

namespace lockstep {

std::int64_t Layout::trainable() const {
  std::int64_t total = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.trained()) total += parameter.range.count;
  }
  return total;
}

std::uint32_t hash_of(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (const unsigned char letter : name) hash = (hash ^ letter) * 16777619u;
  return hash;
}

void initialize(const Layout& layout, std::uint64_t seed, float* parameters) {
  for (const Parameter& parameter : layout.parameters) {
    // The name is the stream: a parameter begins the same whatever else the model holds.
    Random random(seed, Purpose::initialize, 0, hash_of(parameter.name));
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      const float draw =
          parameter.init.kind == Init::Kind::constant ? 1.0f : random.truncated_normal();
      parameters[i] = draw * parameter.init.scale;
    }
  }
}

}  // namespace lockstep
