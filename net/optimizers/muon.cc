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
    {.name = "other-momentum",
     .about = "Momentum for parameters other than filters",
     .value = 0.9f},
    {.name = "newton-schulz",
     .about = "Newton-Schulz iterations that make a step's matrix orthogonal",
     .kind = OptimizerOption::Kind::whole,
     .value = 5,
     .low = 1,
     .high = 20},
    {.name = "unit-filters",
     .about = "Filters scaled to root mean square 1 before each step",
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
  int schedule;
  const UpdateRates* now;
  UpdateRates* own;
  HOST_DEVICE void operator()(std::int64_t) const {
    const Lengths lengths = Lengths::of(sums, blocks);
    *own = *now;
    own->corrections[0] = lengths.first > 0 ? finite(1 / lengths.first) : 0.0f;
    own->corrections[1] = 1;
    const bool stays = now->shares[schedule] == 0;  // nothing is left of its rate
    if (length > 0 && lengths.second > 0 && !stays)
      own->corrections[1] = finite(length / lengths.second);
  }
};

/// values *= a correction.
struct Scale {
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
    std::vector<const Parameter*> filters;
    for (const Parameter& parameter : layout.parameters) {
      if (is_filters(parameter.shape) && parameter.stepped()) filters.push_back(&parameter);
    }
    if (filters.empty()) return;
    const auto cost = [](const Parameter* parameter) {
      const auto [rows, columns] = extents(parameter->shape);
      return rows * columns * std::min(rows, columns);
    };
    std::stable_sort(filters.begin(), filters.end(),
                     [&](const auto* one, const auto* other) { return cost(one) > cost(other); });
    std::size_t room = 0;
    for (const Parameter* parameter : filters) {
      const auto [rows, columns] = extents(parameter->shape);
      auto& plan = plans_[{rows, columns}];
      if (!plan) plan = std::make_unique<NewtonSchulz>(device, rows, columns);
      const auto bytes = parameter->range.count * sizeof(float);
      const Bank bank{plan.get(), static_cast<int>(banks_.size()), memory_.reserve(bytes)};
      banks_.emplace(parameter->range.begin, bank);
      room = std::max(room, plan->scratch_bytes());
    }
    room_ = memory_.reserve(room);
    memory_.allocate(device);
  }

  void begin(Stream& stream, const UpdateSpan& span, const TrainingState& state,
             const UpdateRates* now) const override {
    if (!is_filters(span.shape)) return;
    const Bank& bank = bank_of(span);
    const std::int64_t begin = span.range.begin,
                       count = span.shape.count();  // without the gap behind them
    float *const parameters = state.parameters + begin, *const direction = direction_of(bank);
    double* const sums = state.scratch->sums;
    UpdateRates* const own = &state.scratch->now;
    give_block_sums(stream, count,
                    TakeGradient{{state.slots[0] + begin, momentum_, /*nesterov=*/true},
                                 parameters,
                                 state.gradients + begin,
                                 state.factors + begin / Layout::kAlignment,
                                 now,
                                 direction},
                    sums);
    const double length = unit_ ? std::sqrt(static_cast<double>(span.shape[0])) : 0;
    each(stream, 1, NoteLengths{sums, blocks_of(count), length, span.schedule, now, own});
    if (unit_) each(stream, count, Scale{parameters, 1, own});
    if (state.shared != nullptr && !state.shared->mine(bank.number)) return;
    each(stream, count, Scale{direction, 0, own});
    bank.plan->give(stream, direction, iterations_, static_cast<std::byte*>(memory_.at(room_)));
  }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    if (!is_filters(span.shape)) {
      return give_update(
          stream, span, state, now,
          Momentum{state.slots[0] + span.range.begin, other_momentum_, /*nesterov=*/true});
    }
    const Bank& bank = bank_of(span);
    UpdateSpan filters = span;
    filters.range.count = span.shape.count();
    if (state.shared != nullptr)
      state.shared->share(stream, bank.number, direction_of(bank), filters.range.count);
    give_update(stream, filters, state, now, Taken{direction_of(bank)});
  }

 private:
  using Extents = std::pair<std::int64_t, std::int64_t>;
  /// Filters that are stepped as one matrix.
  struct Bank {
    const NewtonSchulz* plan = nullptr;
    int number = 0;  ///< as a piece of SharedWork
    std::size_t direction = 0;
  };

  static bool is_filters(const Shape& shape) { return shape.rank() > 2; }
  static Extents extents(const Shape& shape) { return {shape[0], shape.row()}; }
  const Bank& bank_of(const UpdateSpan& span) const {
    const auto bank = banks_.find(span.range.begin);
    expect(bank != banks_.end(), "an optimizer was not told of the filters that it is to step");
    return bank->second;
  }
  float* direction_of(const Bank& bank) const {
    return static_cast<float*>(memory_.at(bank.direction));
  }

  float momentum_, other_momentum_;
  int iterations_;
  bool unit_;
  std::map<Extents, std::unique_ptr<NewtonSchulz>> plans_;
  std::map<std::int64_t, Bank> banks_;  ///< by their first element in the arenas
  /// Directions, and room for the iteration.
  Arena memory_;
  std::size_t room_ = 0;
};

}  // namespace

OptimizerEntry muon() {
  return {"muon", "filters by orthogonal steps, all else by sgd with Nesterov's momentum", 0.02,
          kOptions, [](const OptimizerOptions& options) -> std::unique_ptr<Optimizer> {
            return std::make_unique<Muon>(options);
          }};
}

}  // namespace lockstep
