// The means of the gradients and of their squares that Adam and its kin keep, and their options.
#pragma once

#include <array>
#include <cmath>

#include "net/update.h"

namespace lockstep {

/// beta1, beta2 and epsilon, with the usual value of the last.
constexpr std::array<OptimizerOption, 3> moment_options(float epsilon) {
  return {
      {{.name = "beta1", .about = "Decay of the gradients' mean", .value = 0.9f, .high = 0.999999},
       {.name = "beta2",
        .about = "Decay of the squared gradients' mean",
        .value = 0.999f,
        .high = 0.999999},
       {.name = "epsilon",
        .about = "Term of the denominator that limits steps of small gradients",
        .value = epsilon,
        .above_low = true}}};
}

/// m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
struct Moments {
  float *m, *v;
  float beta1, beta2, epsilon;

  struct Means {
    float mean, square;
  };
  /// Takes g into those of element i, which are returned.
  HOST_DEVICE Means follow(std::int64_t i, float g) const {
    const float mean = beta1 * m[i] + (1 - beta1) * g;
    const float square = beta2 * v[i] + (1 - beta2) * g * g;
    m[i] = mean;
    v[i] = square;
    return {mean, square};
  }
  HOST_DEVICE Means at(std::int64_t i) const { return {m[i], v[i]}; }
  /// Adam's direction, with the corrections of its bias.
  HOST_DEVICE float scaled(const Means& means, const UpdateRates& now) const {
    return now.corrections[0] * means.mean /
           (std::sqrt(now.corrections[1] * means.square) + epsilon);
  }
};

/// 1 / (1 - beta1^t) and 1 / (1 - beta2^t) of step t = step + 1.
inline Corrections bias_corrections(std::int64_t step, double beta1, double beta2) {
  const auto of = [t = static_cast<double>(step + 1)](double beta) {
    return static_cast<float>(1 / (1 - std::pow(beta, t)));
  };
  return {of(beta1), of(beta2), 0};
}

/// Adam's rule.
struct ScaledMoments {
  Moments moments;
  HOST_DEVICE float direction(std::int64_t i, float g, const UpdateRates& now) const {
    return moments.scaled(moments.follow(i, g), now);
  }
};

}  // namespace lockstep
