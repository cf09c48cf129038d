// Muon: the momentum of a convolution's filters as a matrix, one filter a row, brought near the
// nearest orthogonal matrix.
//   m = momentum * m + g + decay * p;  d = g + decay * p + momentum * m
//   p -= rate * newton_schulz(d / |d|)
// With --unit-filters p is first brought to the length sqrt(filters). Parameters with one or two
// extents are no filters: they are stepped as by sgd with Nesterov's momentum.
//
// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, also for
// the iteration's polynomial and its coefficients; the lengths are those of airbench94_muon.py in
// the repository of arXiv:2404.00498.

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "net/optimizers/lengths.h"
#include "net/optimizers/moments.h"
#include "src/device/arena.h"

namespace lockstep {
namespace {

constexpr OptimizerOption kOptions[] = {
    momentum_option(0.95f),
    {.name = "other-momentum",
     .about = "Momentum for parameters other than filters",
     .value = 0.9f},
    {.name = "newton-schulz",
     .about = "Newton-Schulz iterations that make a step's matrix orthogonal: 1 to 20",
     .kind = OptimizerOption::Kind::whole,
     .value = 5,
     .low = 1,
     .high = 20},
    {.name = "unit-filters",
     .about = "Filters scaled to root mean square 1 before each step",
     .kind = OptimizerOption::Kind::flag},
};

constexpr float kLinear = 3.4445f, kCubic = -4.7750f, kQuintic = 2.0315f;

struct SetZero {
  float* to;
  HOST_DEVICE void operator()(std::int64_t i) const { to[i] = 0; }
};

/// gram <- cubic * gram + quintic * square.
struct Polynomial {
  float* gram;
  const float* square;
  HOST_DEVICE void operator()(std::int64_t i) const {
    gram[i] = kCubic * gram[i] + kQuintic * square[i];
  }
};

struct AddLinear {
  float* x;
  const float* product;
  HOST_DEVICE void operator()(std::int64_t i) const { x[i] = kLinear * x[i] + product[i]; }
};

/// Newton and Schulz' iteration for matrices of one shape. It brings a matrix near the nearest
/// orthogonal matrix by products only, which each device computes as a dense layer. One thread at a
/// time.
class NewtonSchulz {
 public:
  NewtonSchulz(Device& device, std::int64_t rows, std::int64_t columns);

  /// The size of enqueue()'s workspace, whose contents need not survive between calls.
  std::size_t scratch_bytes() const { return places_.bytes; }
  /// Gives x <- 3.4445 x - 4.7750 (x x^T) x + 2.0315 (x x^T)^2 x, `iterations` times, for x in rows
  /// (fp32) of Frobenius norm 1 or less: its singular values come to lie about 1.
  void enqueue(Stream& stream, float* x, int iterations, std::byte* scratch) const;

 private:
  struct Places {
    std::size_t gram = 0, square = 0, product = 0, zeros = 0, plan = 0, bytes = 0;
  };

  std::int64_t rows_, columns_, side_;
  bool wide_;  ///< x x^T is not larger than x^T x
  /// x with itself, and with the polynomial of that; the square of a symmetric matrix.
  std::unique_ptr<AffinePlan> plan_, square_;
  Places places_;
};

NewtonSchulz::NewtonSchulz(Device& device, std::int64_t rows, std::int64_t columns)
    : rows_(rows), columns_(columns), side_(std::min(rows, columns)), wide_(rows <= columns) {
  plan_ = device.dense({{{rows, columns}, Type::f32, true, true}, side_});
  square_ = device.dense({{{side_, side_}, Type::f32, false, false}, side_});
  const auto reserve = [this](std::int64_t floats) {
    const std::size_t place = places_.bytes;
    places_.bytes += Arena::aligned(floats * sizeof(float));
    return place;
  };
  places_.gram = reserve(side_ * side_);
  places_.square = reserve(side_ * side_);
  places_.product = reserve(rows * columns);
  places_.zeros = reserve(side_);
  places_.plan = places_.bytes;
  places_.bytes += Arena::aligned(std::max(plan_->scratch_bytes(), square_->scratch_bytes()));
}

void NewtonSchulz::enqueue(Stream& stream, float* x, int iterations, std::byte* scratch) const {
  const auto at = [scratch](std::size_t place) {
    return reinterpret_cast<float*>(scratch + place);
  };
  const View matrix{x, {rows_, columns_}, Type::f32},
      gram{at(places_.gram), {side_, side_}, Type::f32},
      square{at(places_.square), {side_, side_}, Type::f32},
      product{at(places_.product), {rows_, columns_}, Type::f32},
      zeros{at(places_.zeros), {side_}, Type::f32};
  void* const room = scratch + places_.plan;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    // (x x^T) x is x (x^T x): the smaller square is the cheaper one.
    each(stream, side_, SetZero{at(places_.zeros)});
    if (wide_) {
      plan_->forward(stream, matrix, matrix, zeros, gram, room);
    } else {
      plan_->backward_weights(stream, matrix, matrix, gram, zeros, room);
      each(stream, side_, SetZero{at(places_.zeros)});  // it had the sums of the columns
    }
    square_->forward(stream, gram, gram, zeros, square, room);
    each(stream, gram.count(), Polynomial{at(places_.gram), at(places_.square)});
    if (wide_) {
      plan_->backward_data(stream, gram, matrix, product, room);
    } else {
      plan_->forward(stream, matrix, gram, zeros, product, room);
    }
    each(stream, matrix.count(), AddLinear{x, at(places_.product)});
  }
}

/// Adds the gradient to the momentum, and sums the squares of the direction and of p.
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

/// Notes as corrections the factors that bring direction and parameter to their lengths.
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
    const bool stays = now->shares[schedule] == 0;  // its rate has ended
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

struct KnownDirection {
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
                                 state.decays + begin / Layout::kAlignment,
                                 now,
                                 direction},
                    sums);
    const double length = unit_ ? std::sqrt(static_cast<double>(span.shape[0])) : 0;
    each(stream, 1, NoteLengths{sums, blocks_of(count), length, span.schedule, now, own});
    if (unit_) each(stream, count, Scale{parameters, 1, own});
    if (state.shared != nullptr && !state.shared->mine(bank.number)) return;
    each(stream, count, Scale{direction, 0, own});
    bank.plan->enqueue(stream, direction, iterations_, static_cast<std::byte*>(memory_.at(room_)));
  }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    if (!is_filters(span.shape)) {
      return enqueue_update(
          stream, span, state, now,
          Momentum{state.slots[0] + span.range.begin, other_momentum_, /*nesterov=*/true});
    }
    const Bank& bank = bank_of(span);
    UpdateSpan filters = span;
    filters.range.count = span.shape.count();
    if (state.shared != nullptr)
      state.shared->share(stream, bank.number, direction_of(bank), filters.range.count);
    enqueue_update(stream, filters, state, now, KnownDirection{direction_of(bank)});
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
    expect(bank != banks_.end(), "an optimizer did not plan the filters that it steps");
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
  return {"muon", "orthogonal steps for filters, sgd with Nesterov momentum for other parameters",
          0.02, kOptions, make<Muon>};
}

}  // namespace lockstep
