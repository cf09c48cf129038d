// Optimizer: how a gradient becomes a step. The menu is net/optimizers.cc. plan_update() cuts a
// range of the arenas into spans, and update() applies an optimizer to them, with few launches.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/parameters.h"
#include "src/device/device.h"

namespace lockstep {

/// An option that an optimizer declares for itself. Two optimizers may share one, all but its
/// default.
struct OptimizerOption {
  enum class Kind { number, whole, flag };
  /// As on the command line, without the dashes: "momentum".
  std::string_view name;
  /// One line for --help.
  std::string_view about;
  Kind kind = Kind::number;
  /// The default. A flag is 0 or 1; a `whole` number has no fraction.
  float value = 0;
  /// What it may be: [low, high], or (low, high] where `above_low`.
  double low = 0, high = 1;
  bool above_low = false;
  /// Most runs set it.
  bool common = false;
};

/// Values of an optimizer's options by name.
using OptimizerOptions = std::map<std::string, float, std::less<>>;

/// What an optimizer makes of the weights' decay: a term of the loss, decay / 2 * square, whose
/// gradient is added to the gradient (L2), or a share of the weight itself, rate * decay of it each
/// step, that no momentum and no scaling sees.
enum class Decay { coupled, decoupled };

/// Numbers of a step that an optimizer's rule wants, as many as it uses.
using Corrections = std::array<float, 3>;

/// What varies from step to step. Bodies read it through a pointer.
struct UpdateRates {
  /// Learning rate.
  float rate = 0;
  /// average = average_decay * average + (1 - average_decay) * parameter.
  float average_decay = 0;
  /// Optimizer::corrections() of the step.
  Corrections corrections{};
  /// What all gradients are to be multiplied by, 1 or less: they are clipped (net/clip.h), or were
  /// scaled up (net/loss_scale.h).
  float scale = 1;
  /// Not 0: nothing is updated.
  std::int32_t skip = 0;
  /// What of the rate parameters have by their schedule (Parameter::schedule): all, or as much as
  /// the epochs of their group leave.
  std::array<float, Layout::kSchedules> shares{1, 1, 1, 1};
};

/// What a layerwise optimizer works with, on the device: sums over the blocks of a parameter
/// (net/block_sums.h), and the rates of its step.
struct LayerScratch {
  double sums[2 * 64];
  UpdateRates now;
};

/// Pieces of a step whose result all ranks need and one of them can work out: whose they are, and
/// how the others come by them. Without it all pieces are everybody's own.
class SharedWork {
 public:
  virtual ~SharedWork() = default;
  /// Whether this rank works out piece `number`: 0, 1, ..., the most costly ones first.
  virtual bool mine(int number) const = 0;
  /// Gives the work after which the `count` floats at `values`, memory of the device, are those of
  /// the rank that the piece is of. All ranks ask for the same pieces in the same order.
  virtual void share(Stream& stream, int number, float* values, std::int64_t count) = 0;
};

/// The arenas of a step, layout.count floats each.
struct TrainingState {
  float* parameters = nullptr;
  /// In the order of Optimizer::slots(), zero before the first step.
  std::vector<float*> slots;
  /// Exponential moving average of the parameters; null: none is kept.
  float* average = nullptr;
  /// Mean gradients of the step. Between parameters they are zero, like all arenas.
  const float* gradients = nullptr;
  /// factors() of the layout, layout.count / 16 of them.
  const float* factors = nullptr;
  /// Null where the optimizer is not layerwise.
  LayerScratch* scratch = nullptr;
  /// Null: this rank works out all of a step.
  SharedWork* shared = nullptr;
};

/// Elements that are stepped alike: parameters that lie side by side, with the gaps behind them, or
/// parts of them; for a layerwise optimizer one parameter.
struct UpdateSpan {
  Range range;
  /// Times the learning rate (Parameter::rate).
  float rate = 1;
  /// Which of UpdateRates::shares (Parameter::schedule).
  int schedule = 0;
  /// Of a layerwise optimizer's parameter.
  Shape shape;
  /// An optimizer steps it; else it holds statistics, or parameters that stay as they are.
  bool stepped = true;

  /// It is no weight but a bias, a scale or a shift, which has one extent.
  bool single() const { return shape.rank() == 1; }
};

/// Pure arithmetic over arenas that others own. May be used by several threads at once, on disjoint
/// ranges, but for layerwise ones.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the extra values it keeps for each parameter; saved in checkpoints as
  /// optimizer/<name>/<parameter>.
  virtual std::vector<std::string> slots() const = 0;
  virtual Decay decay() const { return Decay::coupled; }
  /// What its rule needs to know of step number `step` (0 is the run's first), worked out in double
  /// once for all parameters: the corrections of a bias, for example.
  virtual Corrections corrections(std::int64_t step) const {
    (void)step;
    return {};
  }
  /// A step depends on all of a parameter and of its gradient: it is given whole parameters, one
  /// at a time.
  virtual bool layerwise() const { return false; }
  /// Makes what it works with besides slots and scratch; once, before the first step of any
  /// parameter of `layout`. Throws Error where memory is short.
  virtual void plan(Device& /*device*/, const Layout& /*layout*/) {}
  /// Gives `stream` what comes before update() of any span of a range: a layerwise optimizer's
  /// costly pieces, as far as they are this rank's.
  virtual void begin(Stream& /*stream*/, const UpdateSpan& /*span*/, const TrainingState& /*state*/,
                     const UpdateRates* /*now*/) const {}
  /// Gives `stream` the step of all elements of `span`, whose ends are multiples of 16, and of
  /// their averages: each() with the Update of net/update.h.
  virtual void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
                      const UpdateRates* now) const = 0;
};

struct OptimizerEntry {
  static constexpr std::string_view kind = "optimizer";
  std::string_view name;
  std::string_view about;
  /// The learning rate where nobody says another.
  double rate;
  std::span<const OptimizerOption> options;
  /// `options` has a value for each of its options. Throws the usage error where two of them do not
  /// go together.
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options);
};

std::span<const OptimizerEntry> optimizers();
/// Options that `options` does not name have their defaults.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options);
/// "sgd, momentum 0.9, nesterov": the name and the options that are not zero.
std::string describe_optimizer(std::string_view name, const OptimizerOptions& options);

/// The decay of a parameter: its group's, else its model's own and for weights (more than one
/// extent) that of the run besides. Statistics have none, nor has what stays as it is.
float decay_of(const Parameter& parameter, float weight_decay);
/// One number for every 16 elements of an arena: the decay of the parameter that they belong to, or
/// below 0 how much a statistic follows.
std::vector<float> factors(const Layout& layout, float weight_decay);

/// The spans of `range`, in arena order. `range` begins and ends at multiples of 16. It may begin
/// and end within a parameter, except with a layerwise optimizer.
std::vector<UpdateSpan> plan_update(const Layout& layout, Range range, const Optimizer& optimizer);

/// Gives `stream` the step of `spans`, made by plan_update() for `optimizer`. Statistics move
/// towards the values that the step has found, and parameters with a rate of 0 stay. `now` must
/// stay as it is until the work is done.
void update(Stream& stream, const std::vector<UpdateSpan>& spans, const Optimizer& optimizer,
            const TrainingState& state, const UpdateRates* now);

/// The tutorial's warm-up of the average: min(decay, (1 + step) / (10 + step)), with `step` counted
/// from 0.
float average_decay(float decay, std::int64_t step);

/// Doubles that penalty() needs for its parts.
std::int64_t penalty_parts(const Layout& layout);
/// Gives `stream` the sum over all parameters of decay / 2 * sum of squares, to `*total`: the
/// penalty in the loss of a run whose optimizer couples decay. `factors` are factors() of the
/// layout. All memory is the device's.
void penalty(Stream& stream, const Layout& layout, const float* parameters, const float* factors,
             double* parts, double* total);

}  // namespace lockstep
