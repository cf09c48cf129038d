// The momentum that SGD and LARS keep, and its option.
#pragma once

#include "net/update.h"

namespace lockstep {

constexpr OptimizerOption momentum_option(float usual) {
  return {.name = "momentum",
          .about = "Momentum: share of the last step in the next; 0: none",
          .value = usual,
          .common = true};
}

/// m = momentum * m + g; the direction is m, or g + momentum * m.
struct Momentum {
  float* m;
  float momentum;
  bool nesterov;
  HOST_DEVICE float direction(std::int64_t i, float g, const UpdateRates&) const {
    const float fresh = momentum * m[i] + g;
    m[i] = fresh;
    return nesterov ? g + momentum * fresh : fresh;
  }
};

}  // namespace lockstep
