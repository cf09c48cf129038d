// The means of gradients and of their squares that optimizers keep, with their options: the
// momentum of SGD, LARS and Muon, and the two moments of Adam, LAMB and Nadam.
#pragma once

#include <array>
#include <cmath>

#include "net/update.h"
#include "src/base/elementary.h"

namespace lockstep {

constexpr OptimizerOption momentum_option(float value) {
  return {.name = "momentum",
          .about = "Momentum: share of the last step in the next; 0: none",
          .value = value,
          .common = true,
          .example = "0.9"};
}

/// m = momentum * m + g; the direction is m, or g + momentum * m.
struct Momentum {
  float* m;
  float momentum;
  bool nesterov;
  HOST_DEVICE float direction(std::int64_t i, float g, const Corrections&) const {
    const float fresh = momentum * m[i] + g;
    m[i] = fresh;
    return nesterov ? g + momentum * fresh : fresh;
  }
};

/// beta1, beta2 and epsilon, whose default is `epsilon`.
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
  /// Adds g to the moments of element i and returns these.
  HOST_DEVICE Means follow(std::int64_t i, float g) const {
    const float mean = beta1 * m[i] + (1 - beta1) * g;
    const float square = beta2 * v[i] + (1 - beta2) * g * g;
    m[i] = mean;
    v[i] = square;
    return {mean, square};
  }
  HOST_DEVICE Means at(std::int64_t i) const { return {m[i], v[i]}; }
  /// Adam's direction, with the corrections of its bias.
  HOST_DEVICE float scaled(const Means& means, const Corrections& now) const {
    return now[0] * means.mean /
           (std::sqrt(now[1] * means.square) + epsilon);
  }
};

/// An optimizer with moment_options().
class MomentOptimizer : public Optimizer {
 public:
  explicit MomentOptimizer(const OptimizerOptions& options)
      : beta1_(options.at("beta1")), beta2_(options.at("beta2")), epsilon_(options.at("epsilon")) {}

  std::vector<std::string> slots() const override { return {"m", "v"}; }
  /// 1 / (1 - beta1^t) and 1 / (1 - beta2^t) of step t = step + 1.
  Corrections corrections(std::int64_t step) const override {
    const auto of = [t = static_cast<double>(step + 1)](double beta) {
      return static_cast<float>(1 / (1 - power(beta, t)));
    };
    return {of(beta1_), of(beta2_), 0};
  }

 protected:
  Moments moments(const TrainingState& state, const UpdateSpan& span) const {
    const std::int64_t begin = span.range.begin;
    return {state.slots[0] + begin, state.slots[1] + begin, beta1_, beta2_, epsilon_};
  }

  float beta1_, beta2_, epsilon_;
};

/// Adam's rule.
struct ScaledMoments {
  Moments moments;
  HOST_DEVICE float direction(std::int64_t i, float g, const Corrections& now) const {
    return moments.scaled(moments.follow(i, g), now);
  }
};

}  // namespace lockstep
