// Muon: the momentum of a convolution's filters, as a matrix of one filter a row, brought near the
// orthogonal matrix next to it.
//   m = momentum * m + g + decay * p;  d = g + decay * p + momentum * m
//   p -= rate * newton_schulz(d / |d|)
// With --unit-filters p is first brought to the length sqrt(filters). What is no filter (two
// extents or one) is stepped as by sgd with momentum and Nesterov's look-ahead.
//
// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; the
// lengths are those of airbench94_muon.py in the repository of arXiv:2404.00498.

#include <algorithm>
#include <cmath>
#include <map>

#include "net/optimizers/lengths.h"
#include "net/optimizers/momentum.h"
#include "net/optimizers/newton_schulz.h"
#include "net/update.h"

namespace lockstep {
namespace {

constexpr OptimizerOption kOptions[] = {
    momentum_option(0.95f),
    {.name = "other-momentum", .about = "The same of what is no filter", .value = 0.9f},
    {.name = "newton-schulz",
     .about = "Iterations that make a step's matrix orthogonal",
     .value = 5,
     .low = 1,
     .high = 20},
    {.name = "unit-filters",
     .about = "Bring filters to a root mean square length of 1 before each step",
     .kind = OptimizerOption::Kind::flag},
};

/// Takes the gradient into the momentum, its direction, and the squares of that and of p.
struct TakeGradient {
  static constexpr int kSums = 2;
  Momentum momentum;
  const float *p, *g, *decay;
  const UpdateRates* now;
  float* direction;
  HOST_DEVICE bool idle() const { return now->skip != 0; }
  HOST_DEVICE void operator()(std::int64_t i, double* sums) const {
    const float gradient = now->scale < 1 ? now->scale * g[i] : g[i];
    const float d = momentum.direction(i, gradient + *decay * p[i], *now);
    direction[i] = d;
    sums[0] += static_cast<double>(d) * d;
    sums[1] += static_cast<double>(p[i]) * p[i];
  }
};

/// Notes what brings direction and parameter to their lengths as corrections.
struct NoteLengths {
  const double* sums;
  std::int64_t blocks;
  double length;  ///< of the parameter; 0: its own
  const UpdateRates* now;
  UpdateRates* own;
  HOST_DEVICE void operator()(std::int64_t) const {
    const Lengths lengths = Lengths::of(sums, blocks);
    *own = *now;
    own->corrections[0] = lengths.first > 0 ? finite(1 / lengths.first) : 0.0f;
    own->corrections[1] = 1;
    if (length > 0 && lengths.second > 0) own->corrections[1] = finite(length / lengths.second);
  }
};

/// values *= a correction.
struct Stretched {
  float* values;
  int correction;
  const UpdateRates* now;
  HOST_DEVICE bool idle() const { return now->skip != 0; }
  HOST_DEVICE void operator()(std::int64_t i) const { values[i] *= now->corrections[correction]; }
};

struct Taken {
  const float* direction_of;
  HOST_DEVICE float direction(std::int64_t i, float, const UpdateRates&) const {
    return direction_of[i];
  }
};

class Muon : public Optimizer {
 public:
  explicit Muon(const OptimizerOptions& options)
      : momentum_(options.at("momentum")),
        other_momentum_(options.at("other-momentum")),
        iterations_(static_cast<int>(options.at("newton-schulz"))),
        unit_(options.at("unit-filters") != 0) {}

  std::vector<std::string> slots() const override { return {"momentum"}; }
  bool layerwise() const override { return true; }

  void plan(Device& device, const Layout& layout) override {
    std::size_t bytes = 0;
    for (const Parameter& parameter : layout.parameters) {
      if (!is_filters(parameter.shape) || !parameter.stepped()) continue;
      const auto [place, fresh] = plans_.try_emplace(extents(parameter.shape));
      const auto [rows, columns] = place->first;
      if (fresh) place->second = std::make_unique<NewtonSchulz>(device, rows, columns);
      direction_bytes_ =
          std::max(direction_bytes_,
                   Arena::aligned(static_cast<std::size_t>(rows * columns) * sizeof(float)));
      bytes = std::max(bytes, place->second->scratch_bytes());
    }
    if (bytes > 0) scratch_ = device.allocate(direction_bytes_ + bytes, Place::device);
  }

  void update(Stream& stream, const Stretch& stretch, const TrainingState& state,
              const UpdateRates* now) const override {
    const auto [begin, count] = stretch.range;
    float* const momentum = state.slots[0] + begin;
    if (!is_filters(stretch.shape)) {
      return give_update(stream, stretch, state, now,
                         Momentum{momentum, other_momentum_, /*nesterov=*/true});
    }
    const auto plan = plans_.find(extents(stretch.shape));
    expect(plan != plans_.end(), "an optimizer was not told of the filters that it is to step");
    auto* const direction = reinterpret_cast<float*>(scratch_.get());
    double* const sums = state.scratch->sums;
    UpdateRates* const own = &state.scratch->now;
    const std::int64_t filled = stretch.shape.count();  // without the gap behind it
    give_block_sums(stream, filled,
                    TakeGradient{{momentum, momentum_, /*nesterov=*/true},
                                 state.parameters + begin,
                                 state.gradients + begin,
                                 state.factors + begin / Layout::kAlignment,
                                 now,
                                 direction},
                    sums);
    const double length = unit_ ? std::sqrt(static_cast<double>(stretch.shape[0])) : 0;
    each(stream, 1, NoteLengths{sums, blocks_of(filled), length, now, own});
    each(stream, filled, Stretched{direction, 0, own});
    plan->second->give(stream, direction, iterations_, scratch_.get() + direction_bytes_);
    if (unit_) each(stream, filled, Stretched{state.parameters + begin, 1, own});
    Stretch filters = stretch;
    filters.range.count = filled;
    give_update(stream, filters, state, own, Taken{direction});
  }

 private:
  using Extents = std::pair<std::int64_t, std::int64_t>;

  static bool is_filters(const Shape& shape) { return shape.rank() > 2; }
  static Extents extents(const Shape& shape) { return {shape[0], shape.row()}; }

  float momentum_, other_momentum_;
  int iterations_;
  bool unit_;
  std::map<Extents, std::unique_ptr<NewtonSchulz>> plans_;
  /// A direction, and behind it what the iteration works in.
  Memory scratch_;
  std::size_t direction_bytes_ = 0;
};

}  // namespace

OptimizerEntry muon() {
  return {"muon", "filters by orthogonal steps, all else by sgd with Nesterov's momentum", 0.02,
          kOptions, [](const OptimizerOptions& options) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Muon>(options);
          }};
}

}  // namespace lockstep
