// The initial weights of models. To draw them takes longer than a step, so they are kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "net/parameters.h"

namespace lockstep {

/// Those of `model`, with this layout and the seed 1. One thread.
inline const std::vector<float>& initial_weights(const std::string& model, const Layout& layout) {
  static std::map<std::string, std::vector<float>> known;
  std::vector<float>& weights = known[model];
  if (static_cast<std::int64_t>(weights.size()) != layout.count) {
    weights.assign(static_cast<std::size_t>(layout.count), 0);
    initialize(layout, 1, weights.data());
  }
  return weights;
}

}  // namespace lockstep
