// Muon: the momentum of a convolution's filters as a matrix, one filter a row, brought near the
// nearest orthogonal matrix.
//   m = momentum * m + g + decay * p;  d = g + decay * p + momentum * m
//   p -= rate * newton_schulz(d / |d|)
// With --unit-filters p is first brought to the length sqrt(filters). Parameters with one or two
// extents, one row or one column are no filters: they are stepped as by sgd with Nesterov's
// momentum.
//
// Sources: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024, also for
// the iteration's polynomial and its coefficients; the lengths are those of airbench94_muon.py in
// the repository of arXiv:2404.00498.
//
// All ranks keep the momentum of all filters, so that states do not depend on the number of ranks.
// Only the iteration is shared out: begin() runs it on the rank that owns a group, and update()
// passes the result on.

#include <algorithm>
#include <array>
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

/// Newton and Schulz' iteration for `count` matrices of one shape. It brings a matrix near the
/// nearest orthogonal matrix by products only, which each device computes as dense layers. Factors
/// may be rounded to 10 bits (TF32): singular values need not come nearer to 1 than 0.7 to 1.2. One
/// thread at a time.
class NewtonSchulz {
 public:
  NewtonSchulz(Device& device, std::int64_t rows, std::int64_t columns, std::int64_t count)
      : rows_(count * rows),
        columns_(columns),
        side_(std::min(rows, columns)),
        sides_(count * side_),
        wide_(rows <= columns) {
    // The three passes of a dense layer are the products here: y = x w^T, dx = dy w, dw = dy^T x.
    // The matrix, or its square, takes the place of the weights.
    const auto plan = [&](Shape x, bool training) {
      return device.dense({.input = {x, Type::f32, training, training},
                           .features = side_,
                           .biases = false,
                           .layers = count,
                           .tf32 = true});
    };
    plan_ = plan({rows_, columns_}, true);
    square_ = plan({sides_, side_}, false);
    square_bytes_ = Arena::aligned(sides_ * side_ * sizeof(float));
    own_bytes_ = 2 * square_bytes_ + Arena::aligned(rows_ * columns_ * sizeof(float));
  }

  /// The size of enqueue()'s workspace, whose contents need not survive between calls.
  std::size_t scratch_bytes() const {
    return own_bytes_ + std::max(plan_->scratch_bytes(), square_->scratch_bytes());
  }
  /// Gives x <- 3.4445 x - 4.7750 (x x^T) x + 2.0315 (x x^T)^2 x, `iterations` times, for each x of
  /// the matrices at `x`, one after the other, in rows (fp32) of Frobenius norm 1 or less: their
  /// singular values come to lie about 1.
  void enqueue(Stream& stream, float* x, int iterations, std::byte* scratch) const {
    const View matrix{x, {rows_, columns_}, Type::f32}, gram{scratch, {sides_, side_}, Type::f32},
        square{scratch + square_bytes_, {sides_, side_}, Type::f32},
        product{scratch + 2 * square_bytes_, {rows_, columns_}, Type::f32};
    void* const room = scratch + own_bytes_;
    for (int iteration = 0; iteration < iterations; ++iteration) {
      // (x x^T) x is x (x^T x): the smaller square is the cheaper one.
      if (wide_) {
        plan_->forward(stream, matrix, matrix, {}, gram, room);
      } else {
        plan_->backward_weights(stream, matrix, matrix, gram, {}, room);
      }
      square_->forward(stream, gram, gram, {}, square, room);
      each(stream, gram.count(), Polynomial{gram.as<float>(), square.as<float>()});
      if (wide_) {
        plan_->backward_data(stream, gram, matrix, product, room);
      } else {
        plan_->forward(stream, matrix, gram, {}, product, room);
      }
      each(stream, matrix.count(), AddLinear{x, product.as<float>()});
    }
  }

 private:
  std::int64_t rows_, columns_;  ///< of all matrices, one below the other
  std::int64_t side_, sides_;    ///< of the smaller square of one matrix, and of all
  bool wide_;                    ///< x x^T is not larger than x^T x
  /// x with itself, and with the polynomial of that; the square of a symmetric matrix.
  std::unique_ptr<AffinePlan> plan_, square_;
  std::size_t square_bytes_, own_bytes_;  ///< of a square, and of all besides the plans' memory
};

/// Adds the gradient to the momentum. Writes the direction, and returns it and p.
struct TakeGradient {
  Momentum momentum;
  float* direction;
  HOST_DEVICE Elements operator()(std::int64_t i, const Gradients& of) const {
    const float d = momentum.direction(i, scaled(of.g[i], of.scale) + of.decay * of.p[i], {});
    direction[i] = d;
    return {d, of.p[i]};
  }
};

/// Notes as corrections the factors that bring direction and parameter to their lengths.
struct NoteFactors {
  double length;  ///< of the parameter; 0: its own
  int schedule;
  HOST_DEVICE void operator()(const Lengths& lengths, UpdateRates& own) const {
    own.corrections[0] = lengths.first > 0 ? finite(1 / lengths.first) : 0.0f;
    own.corrections[1] = 1;
    // A parameter whose schedule has ended must not change, so that it is not scaled either.
    const bool stays = own.shares[schedule] == 0;  // its rate has ended
    if (length > 0 && lengths.second > 0 && !stays)
      own.corrections[1] = finite(length / lengths.second);
  }
};

/// values *= a correction.
struct Scale {
  float* values;
  int correction;
  const UpdateRates* now;
  HOST_DEVICE void operator()(std::int64_t i) const { values[i] *= now->corrections[correction]; }
};

struct KnownDirection {
  const float* direction_of;
  HOST_DEVICE float direction(std::int64_t i, float, const Corrections&) const {
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
    for (const Parameter* parameter : filters) add(*parameter, !device.traits().batches_products);
    // No group is added after this, so that places_ may point into groups_. The groups share the
    // scratch memory of the iteration, because they run one after another in one stream.
    std::size_t room = 0;
    for (Group& group : groups_) {
      const Shape shape = group.filters.front().shape;
      const auto [rows, columns] = extents(shape);
      const auto count = static_cast<std::int64_t>(group.filters.size());
      auto& plan = plans_[{rows, columns, count}];
      if (!plan) plan = std::make_unique<NewtonSchulz>(device, rows, columns, count);
      group.plan = plan.get();
      std::size_t place = memory_.reserve(count * shape.count() * sizeof(float));
      for (const UpdateSpan& filters : group.filters) {
        places_[filters.range.begin] = {&group, place};
        place += shape.count() * sizeof(float);
      }
      room = std::max(room, plan->scratch_bytes());
    }
    room_ = memory_.reserve(room);
    memory_.allocate(device);
  }

  void begin(Stream& stream, const UpdateSpan& span, const TrainingState& state,
             const UpdateRates* now) const override {
    if (!is_filters(span.shape)) return;
    const Group& group = group_of(span);
    const std::int64_t begin = span.range.begin,
                       count = span.shape.count();  // without the gap behind them
    float* const direction = direction_of(span);
    const double length = unit_ ? std::sqrt(static_cast<double>(span.shape[0])) : 0;
    UpdateRates* const own = enqueue_lengths(
        stream, span, count, state, now,
        TakeGradient{{state.slots[0] + begin, momentum_, /*nesterov=*/true}, direction},
        NoteFactors{length, span.schedule});
    // On all ranks, because each of them steps the parameters. The direction is only needed on the
    // rank that iterates.
    if (unit_) each(stream, count, Scale{state.parameters + begin, 1, own});
    if (state.shared != nullptr && !state.shared->mine(group.number)) return;
    each(stream, count, Scale{direction, 0, own});
    if (!group.ends_with(span)) return;
    group.plan->enqueue(stream, direction_of(group.filters.front()), iterations_,
                        static_cast<std::byte*>(memory_.at(room_)));
  }

  void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    if (!is_filters(span.shape)) {
      return enqueue_update(
          stream, span, state, now,
          Momentum{state.slots[0] + span.range.begin, other_momentum_, /*nesterov=*/true});
    }
    const Group& group = group_of(span);
    // The gradients of a group become ready in the order of the arenas. The last one completes it.
    if (!group.ends_with(span)) return;
    for (const UpdateSpan& filters : group.filters) {
      float* const direction = direction_of(filters);
      if (state.shared != nullptr)
        state.shared->share(stream, group.number, direction, filters.range.count);
      enqueue_update(stream, filters, state, now, KnownDirection{direction});
    }
  }

 private:
  /// Filters of one shape that are iterated together, in the order of the arenas. All of them step
  /// when the gradient of the last one is there.
  struct Group {
    int number = 0;  ///< as a piece of SharedWork
    std::vector<UpdateSpan> filters = {};
    const NewtonSchulz* plan = nullptr;

    bool ends_with(const UpdateSpan& span) const {
      return filters.back().range.begin == span.range.begin;
    }
  };
  struct Place {
    const Group* group;
    std::size_t direction;  ///< offset in memory_
  };

  /// A token or the factors of channels have three extents too, but only one row or column.
  static bool is_filters(const Shape& shape) {
    return shape.rank() > 2 && shape[0] > 1 && shape.row() > 1;
  }
  static std::pair<std::int64_t, std::int64_t> extents(const Shape& shape) {
    return {shape[0], shape.row()};
  }

  /// Puts filters into a group. Only a GPU gains from groups of several.
  void add(const Parameter& parameter, bool alone) {
    const UpdateSpan span{parameter.range, parameter.rate, parameter.schedule, parameter.shape};
    auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& other) {
      return !alone && extents(other.filters.front().shape) == extents(span.shape);
    });
    if (group == groups_.end())
      group = groups_.insert(group, Group{.number = static_cast<int>(groups_.size())});
    group->filters.push_back(span);
  }

  const Group& group_of(const UpdateSpan& span) const {
    return *places_.at(span.range.begin).group;
  }
  float* direction_of(const UpdateSpan& span) const {
    return static_cast<float*>(memory_.at(places_.at(span.range.begin).direction));
  }

  float momentum_, other_momentum_;
  int iterations_;
  bool unit_;
  /// By the rows and columns of a matrix, and the number of matrices.
  std::map<std::array<std::int64_t, 3>, std::unique_ptr<NewtonSchulz>> plans_;
  std::vector<Group> groups_;
  std::map<std::int64_t, Place> places_;  ///< by the beginning of the filters' range
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
