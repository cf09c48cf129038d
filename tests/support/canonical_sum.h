// The canonical order of addition by its definition (collectives/schedule.h), and numbers whose sum
// depends on the order.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "src/base/random.h"

namespace lockstep {

/// At distances d = 1, 2, 4, ..: part r += part r + d, element by element.
inline std::vector<float> canonical_sum(std::vector<std::vector<float>> parts) {
  for (std::size_t d = 1; d < parts.size(); d *= 2) {
    for (std::size_t r = 0; r + d < parts.size(); r += 2 * d) {
      for (std::size_t i = 0; i < parts[r].size(); ++i) parts[r][i] += parts[r + d][i];
    }
  }
  return parts.front();
}

/// `count` numbers for each part: magnitudes from 2^-12 to 2^12, both signs.
inline std::vector<std::vector<float>> draw_parts(int parts, std::int64_t count, Random& random) {
  std::vector<std::vector<float>> all(parts, std::vector<float>(static_cast<std::size_t>(count)));
  for (auto& part : all) {
    for (float& value : part) value = random.normal() * std::exp2(random.uniform(-12.0f, 12.0f));
  }
  return all;
}

}  // namespace lockstep
