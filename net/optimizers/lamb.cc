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

/// Adds the gradient to the moments, and sums the squares of p and d.
struct Squares {
  static constexpr int kSums = 2;
  Moments moments;
  const float *p, *g, *decay;
  const UpdateRates* now;

  struct Loaded {
    Moments moments;
    const float *p, *g;
    float decay, scale;
    Corrections corrections;
    HOST_DEVICE void operator()(std::int64_t i, double* terms) const {
      const auto means = moments.follow(i, scaled(g[i], scale));
      const float d = moments.scaled(means, corrections) + decay * p[i];
      terms[0] = static_cast<double>(p[i]) * p[i];
      terms[1] = static_cast<double>(d) * d;
    }
  };

  HOST_DEVICE Loaded loaded() const {
    return {moments, p, g, *decay, now->scale, now->corrections};
  }
};

struct NoteRate {
  const double* sums;
  std::int64_t blocks;
  const UpdateRates* now;
  UpdateRates* own;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t, Team team) const {
    const Lengths lengths = Lengths::of(sums, blocks, team);
    if (team.lane != 0) return;
    *own = *now;
    if (lengths.both()) own->rate = finite(now->rate * lengths.first / lengths.second);
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
    const auto [begin, count] = span.range;
    const Moments moments = this->moments(state, span);
    if (span.single())
      return enqueue_update<Decay::decoupled>(stream, span, state, now, ScaledMoments{moments});
    double* sums = state.scratch->sums;
    UpdateRates* own = &state.scratch->now;
    const std::int64_t blocks = blocks_of(count, state.lanes);
    enqueue_block_sums(stream, count, blocks,
                       Squares{moments, state.parameters + begin, state.gradients + begin,
                               state.decays + begin / Layout::kAlignment, now},
                       sums);
    each_row(stream, 1, blocks, NoteRate{sums, blocks, now, own});
    enqueue_update<Decay::decoupled>(stream, span, state, own, KnownMoments{moments});
  }
};

}  // namespace

OptimizerEntry lamb() {
  return {"lamb", "Adam with steps in proportion to the norm of each array, for large batches",
          0.001, kOptions, make<Lamb>};
}

}  // namespace lockstep
