// Stochastic gradient descent with momentum and Nesterov's look-ahead, as TensorFlow and PyTorch
// define them:
//   g += decay * p;  m = momentum * m + g;  p -= rate * (nesterov ? g + momentum * m : m)

#include "net/optimizers/moments.h"

namespace lockstep {
namespace {

constexpr OptimizerOption kOptions[] = {
    momentum_option(0),
    {.name = "nesterov",
     .about = "Nesterov momentum",
     .kind = OptimizerOption::Kind::flag,
     .example = "--momentum 0.9"},
};

struct Plain {
  HOST_DEVICE float direction(std::int64_t, float g, const Corrections&) const { return g; }
};

class Sgd : public Optimizer {
 public:
  explicit Sgd(const OptimizerOptions& options)
      : momentum_(options.at("momentum")), nesterov_(options.at("nesterov") != 0) {
    if (nesterov_ && momentum_ == 0) {
      throw Error("--nesterov needs a momentum. Add --momentum 0.9.", kExitUsage);
    }
  }

  std::vector<std::string> slots() const override {
    return momentum_ == 0 ? std::vector<std::string>{} : std::vector<std::string>{"momentum"};
  }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    if (momentum_ == 0) return enqueue_update(stream, span, state, now, Plain{});
    enqueue_update(stream, span, state, now,
                   Momentum{state.slots[0] + span.range.begin, momentum_, nesterov_});
  }

 private:
  float momentum_;
  bool nesterov_;
};

}  // namespace

OptimizerEntry sgd() {
  return {"sgd", "stochastic gradient descent, with momentum", 0.1, kOptions, make<Sgd>};
}

}  // namespace lockstep
