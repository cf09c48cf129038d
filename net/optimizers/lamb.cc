// LAMB, layer-wise adaptive moments: Adam's direction, with the decay, brought to the length of the
// array of weights that it moves, step t = 1, 2, ...:
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   d = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay * p
//   p -= rate * |p| / |d| * d
// The ratio of the lengths is 1 where one of them is 0, and for biases, scales and shifts, which do
// not decay either.
//
// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
// 2019, arXiv:1904.00962, algorithm 2, with the length itself for its phi.

#include "net/optimizers/lengths.h"
#include "net/optimizers/moments.h"

namespace lockstep {
namespace {

constexpr auto kOptions = moment_options(1e-6f);

/// Adds the gradient to the moments, and returns p and d.
struct TakeGradient {
  Moments moments;
  HOST_DEVICE Elements operator()(std::int64_t i, const Gradients& of) const {
    const auto means = moments.follow(i, scaled(of.g[i], of.scale));
    return {of.p[i], moments.scaled(means, of.corrections) + of.decay * of.p[i]};
  }
};

struct NoteRate {
  HOST_DEVICE void operator()(const Lengths& lengths, UpdateRates& own) const {
    if (lengths.both()) own.rate = finite(own.rate * lengths.first / lengths.second);
  }
};

/// The rule for moments that already contain the gradient.
struct KnownMoments {
  Moments moments;
  HOST_DEVICE float direction(std::int64_t i, float, const Corrections& now) const {
    return moments.scaled(moments.at(i), now);
  }
};

class Lamb : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

  Decay decay() const override { return Decay::decoupled; }
  bool layerwise() const override { return true; }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    const Moments moments = this->moments(state, span);
    if (span.single())
      return enqueue_update<Decay::decoupled>(stream, span, state, now, ScaledMoments{moments});
    // The lengths need the direction, and the direction the new moments. So the first pass also
    // stores them, and the second one must not add the gradient again.
    now = enqueue_lengths(stream, span, span.range.count, state, now, TakeGradient{moments},
                          NoteRate{});
    enqueue_update<Decay::decoupled>(stream, span, state, now, KnownMoments{moments});
  }
};

}  // namespace

OptimizerEntry lamb() {
  return {"lamb", "Adam with steps in proportion to the norm of each array, for large batches",
          0.001, kOptions, make<Lamb>};
}

}  // namespace lockstep
