// Whether training mirrors an image left to right.
#pragma once

#include "src/random.h"

namespace lockstep {

/// By chance each time, drawn from `random`, whose epoch and index are those of the sample; with
/// `alternate` by chance in epoch 0 and from then on in turns, so that two epochs in a row see
/// both, and nothing is drawn from `random`. Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a
/// single GPU", 2024, 3.6.
constexpr bool draw_flip(Random& random, bool alternate) {
  if (!alternate) return random.below(2) == 1;
  const std::uint32_t first = random.in(Purpose::flip, 0).below(2);
  return (first + random.epoch()) % 2 == 1;
}

}  // namespace lockstep
