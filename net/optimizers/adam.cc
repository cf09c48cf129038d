// Adam and AdamW, step t = 1, 2, ...:
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   p -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
// Adam has the gradient of the decay in g; AdamW takes rate * decay * p off besides.
//
// Sources: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1;
// Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2, with one
// schedule for both the step and the decay, as PyTorch has it.

#include "net/optimizers/moments.h"

namespace lockstep {
namespace {

constexpr auto kOptions = moment_options(1e-8f);

template <Decay kDecay>
class Adam : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

  Decay decay() const override { return kDecay; }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    enqueue_update<kDecay>(stream, span, state, now, ScaledMoments{moments(state, span)});
  }
};

}  // namespace

OptimizerEntry adam() {
  return {"adam", "Adam: momentum, divided by the root mean square of the gradients", 0.001,
          kOptions, make<Adam<Decay::coupled>>};
}

OptimizerEntry adamw() {
  return {"adamw", "Adam with decoupled weight decay", 0.001, kOptions,
          make<Adam<Decay::decoupled>>};
}

}  // namespace lockstep
