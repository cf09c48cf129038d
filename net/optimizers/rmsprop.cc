// RMSprop as Keras defines it:
//   v = rho * v + (1 - rho) * g^2;  p -= rate * g / sqrt(v + epsilon)
//
// Source: Tieleman, Hinton, "Lecture 6.5 - RMSProp", COURSERA: Neural networks for machine
// learning, 2012.

#include <cmath>

#include "net/update.h"

namespace lockstep {
namespace {

constexpr OptimizerOption kOptions[] = {
    {.name = "rho",
     .about = "Decay of the squared gradients' mean",
     .value = 0.9f,
     .high = 0.999999},
    {.name = "epsilon",
     .about = "Term of the denominator that limits steps of small gradients",
     .value = 1e-7f,
     .above_low = true},
};

struct RootMeanSquare {
  float* v;
  float rho, epsilon;
  HOST_DEVICE float direction(std::int64_t i, float g, const Corrections&) const {
    const float square = rho * v[i] + (1 - rho) * g * g;
    v[i] = square;
    return g / std::sqrt(square + epsilon);
  }
};

class Rmsprop : public Optimizer {
 public:
  explicit Rmsprop(const OptimizerOptions& options)
      : rho_(options.at("rho")), epsilon_(options.at("epsilon")) {}

  std::vector<std::string> slots() const override { return {"v"}; }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    enqueue_update(stream, span, state, now,
                   RootMeanSquare{state.slots[0] + span.range.begin, rho_, epsilon_});
  }

 private:
  float rho_, epsilon_;
};

}  // namespace

OptimizerEntry rmsprop() {
  return {"rmsprop", "gradients, divided by their root mean square, as in Keras", 0.001, kOptions,
          make<Rmsprop>};
}

}  // namespace lockstep
