// LARS, layer-wise adaptive rate scaling: SGD with momentum where each array of weights is moved by
// a share of its own length.
//   ratio = trust * |p| / (|g| + decay * |p|);  m = momentum * m + ratio * (g + decay * p)
//   p -= rate * m
// The ratio is 1 where one of the lengths is 0, and for biases, scales and shifts, which do not
// decay either. The rate stands outside of the momentum, as with sgd: while it does not change that
// is the paper's step.
//
// Source: You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017,
// arXiv:1708.03888, algorithm 1.

#include "net/optimizers/lengths.h"
#include "net/optimizers/moments.h"

namespace lockstep {
namespace {

constexpr OptimizerOption kOptions[] = {
    momentum_option(0.9f),
    {.name = "trust",
     .about = "Trust coefficient: norm of a step, relative to the weights' norm",
     .value = 0.02f,
     .above_low = true},
};

struct Plain {
  HOST_DEVICE Elements operator()(std::int64_t i, const Gradients& of) const {
    return {of.p[i], of.g[i]};
  }
};

/// Notes the ratio as a correction.
struct NoteRatio {
  const float* decay;
  float trust;
  HOST_DEVICE void operator()(const Lengths& lengths, UpdateRates& own) const {
    const double step = own.scale * lengths.second + *decay * lengths.first;
    if (lengths.both()) own.corrections[0] = finite(trust * lengths.first / step);
  }
};

struct Scaled {
  Momentum momentum;
  HOST_DEVICE float direction(std::int64_t i, float g, const Corrections& now) const {
    return momentum.direction(i, now[0] * g, now);
  }
};

class Lars : public Optimizer {
 public:
  explicit Lars(const OptimizerOptions& options)
      : momentum_(options.at("momentum")), trust_(options.at("trust")) {}

  std::vector<std::string> slots() const override { return {"momentum"}; }
  bool layerwise() const override { return true; }
  Corrections corrections(std::int64_t) const override { return {1, 0, 0}; }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    const auto [begin, count] = span.range;
    if (!span.single()) {
      now = enqueue_lengths(stream, span, count, state, now, Plain{},
                            NoteRatio{state.decays + begin / Layout::kAlignment, trust_});
    }
    enqueue_update(stream, span, state, now,
                   Scaled{{state.slots[0] + begin, momentum_, /*nesterov=*/false}});
  }

 private:
  float momentum_, trust_;
};

}  // namespace

OptimizerEntry lars() {
  return {"lars", "sgd with steps in proportion to the norm of each array, for large batches", 0.1,
          kOptions, make<Lars>};
}

}  // namespace lockstep
