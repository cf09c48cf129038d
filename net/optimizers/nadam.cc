// Nadam, Adam with Nesterov's look-ahead, as Keras defines it, step t = 1, 2, ...:
//   u_t = beta1 * (1 - 0.96^t / 2);  U_t = u_1 * ... * u_t
//   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2
//   p -= rate * (u_{t+1} * m / (1 - U_{t+1}) + (1 - u_t) * g / (1 - U_t))
//            / (sqrt(v / (1 - beta2^t)) + epsilon)
//
// Source: Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop, 2016.

#include <cmath>

#include "net/optimizers/moments.h"

namespace lockstep {
namespace {

constexpr auto kOptions = moment_options(1e-7f);

struct LookAhead {
  Moments moments;
  HOST_DEVICE float direction(std::int64_t i, float g, const Corrections& now) const {
    const auto [mean, square] = moments.follow(i, g);
    return (now[0] * mean + now[1] * g) /
           (std::sqrt(now[2] * square) + moments.epsilon);
  }
};

class Nadam : public MomentOptimizer {
 public:
  using MomentOptimizer::MomentOptimizer;

  Corrections corrections(std::int64_t step) const override {
    const std::int64_t t = step + 1;
    const double next = momentum(t + 1), before = product(t), after = before * next,
                 squares = 1 - power(static_cast<double>(beta2_), static_cast<double>(t));
    return {static_cast<float>(next / (1 - after)),
            static_cast<float>((1 - momentum(t)) / (1 - before)), static_cast<float>(1 / squares)};
  }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    enqueue_update(stream, span, state, now, LookAhead{moments(state, span)});
  }

 private:
  double momentum(std::int64_t t) const {
    return beta1_ * (1 - 0.5 * power(0.96, static_cast<double>(t)));
  }
  /// U_t. From t = 1000 on 0.96^t is nothing in double, and every further factor beta1. It is
  /// computed anew in each step, so that no state besides the moments has to be saved.
  double product(std::int64_t t) const {
    const std::int64_t varied = std::min<std::int64_t>(t, 1000);
    double result = power(static_cast<double>(beta1_), static_cast<double>(t - varied));
    for (std::int64_t i = 1; i <= varied; ++i) result *= momentum(i);
    return result;
  }
};

}  // namespace

OptimizerEntry nadam() {
  return {"nadam", "Adam with Nesterov's look-ahead, as in Keras", 0.001, kOptions, make<Nadam>};
}

}  // namespace lockstep
