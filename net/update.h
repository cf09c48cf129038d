// The body of all optimizers: a step of each element along its rule's direction, with decay and
// moving average in the same pass over memory. A rule is a trivially copyable struct with
//   HOST_DEVICE float direction(std::int64_t i, float gradient, const Corrections& now) const
// which also updates the slots of element i. For .cc files of net/optimizers.
#pragma once

#include <cstdint>

#include "net/optimizer.h"
#include "src/device/each.h"

namespace lockstep {

/// A gradient times UpdateRates::scale. An unconditional product would be fused into the next sum
/// on a GPU, and round differently.
HOST_DEVICE inline float scaled(float gradient, float scale) {
  return scale < 1 ? scale * gradient : gradient;
}

template <class Rule, Decay kDecay, bool kAverage>
struct Update {
  static constexpr std::int64_t kUnit = Layout::kAlignment;  ///< elements of one decay
  Rule rule;
  float* p;
  const float* g;
  float* average;
  const float* decays;
  const UpdateRates* now;
  float share;  // of the learning rate
  int schedule;

  struct Unit {
    Rule rule;
    float* p;
    const float* g;
    float* average;
    float rate, scale, decay, fresh;  // `fresh`: share of the parameter in its average
    Corrections corrections;

    HOST_DEVICE void operator()(std::int64_t i) const {
      const float before = p[i];
      const float gradient = scaled(g[i], scale);
      const float direction = kDecay == Decay::coupled
                                  ? rule.direction(i, gradient + decay * before, corrections)
                                  : rule.direction(i, gradient, corrections) + decay * before;
      const float after = before - rate * direction;
      p[i] = after;
      if constexpr (kAverage) average[i] -= fresh * (average[i] - after);
    }
  };

  HOST_DEVICE Unit unit(std::int64_t i) const {
    return {rule,
            p,
            g,
            average,
            now->rate * now->shares[schedule] * share,
            now->scale,
            decays[static_cast<std::uint64_t>(i) / kUnit],
            1 - now->average_decay,
            now->corrections};
  }
  HOST_DEVICE void operator()(std::int64_t i) const { unit(i)(i); }
};

/// One launch over `span`; the slots of `rule` begin there.
template <Decay kDecay = Decay::coupled, class Rule>
void enqueue_update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
                    const UpdateRates* now, const Rule& rule) {
  const Range range = span.range;
  float *p = state.parameters + range.begin, *average = state.average;
  const float *g = state.gradients + range.begin, *decays = state.decays + range.begin / Layout::kAlignment;
  if (average != nullptr) {
    each(stream, range.count,
         Update<Rule, kDecay, true>{rule, p, g, average + range.begin, decays, now, span.rate,
                                    span.schedule});
  } else {
    each(stream, range.count,
         Update<Rule, kDecay, false>{rule, p, g, nullptr, decays, now, span.rate, span.schedule});
  }
}

/// OptimizerEntry::make of an optimizer that is made from its options.
template <class T>
std::unique_ptr<Optimizer> make(const OptimizerOptions& options) {
  return std::make_unique<T>(options);
}

}  // namespace lockstep
