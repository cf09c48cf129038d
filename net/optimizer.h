// Optimizer: how a gradient becomes a step. The registry is net/optimizers.cc. plan_update() cuts a
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

/// An option that an optimizer declares. Optimizers may share an option, except its default.
struct OptimizerOption {
  enum class Kind { number, whole, flag };
  /// As on the command line, without the dashes: "momentum".
  std::string_view name;
  /// One line for --help.
  std::string_view about;
  Kind kind = Kind::number;
  /// The default. A flag is 0 or 1; a `whole` number has no fraction.
  float value = 0;
  /// Its range: [low, high], or (low, high] if `above_low`.
  double low = 0, high = 1;
  bool above_low = false;
  /// Most runs set it.
  bool common = false;
  /// The value in an example; of a flag the options that it needs. Empty: the default.
  std::string_view example = {};
};

/// Values of an optimizer's options by name.
using OptimizerOptions = std::map<std::string, float, std::less<>>;

/// How weights decay. Coupled: the loss has the term decay / 2 * square (L2), whose gradient is
/// added to the gradient. Decoupled: each step subtracts rate * decay of the weight itself, which
/// enters no momentum and no scaling.
enum class Decay { coupled, decoupled };

/// Numbers of a step for an optimizer's rule, as many as it uses.
using Corrections = std::array<float, 3>;

/// The numbers that vary from step to step. Bodies read them through a pointer.
struct UpdateRates {
  /// Learning rate.
  float rate = 0;
  /// average = average_decay * average + (1 - average_decay) * parameter.
  float average_decay = 0;
  /// Optimizer::corrections() of the step.
  Corrections corrections{};
  /// The factor of all gradients, 1 or less, because of clipping (net/clip.h).
  float scale = 1;
  /// The factor of the learning rate by Parameter::schedule: 1, or less for a group whose schedule
  /// ends earlier.
  std::array<float, Layout::kSchedules> shares{1, 1, 1, 1};
};

/// The workspace of a layerwise optimizer on the device: sums over the blocks of a parameter
/// (net/optimizers/lengths.h), and the rates of its step.
struct LayerScratch {
  double sums[2 * 1024];
  UpdateRates now;
};

/// Shares costly pieces of a step among the ranks: one rank computes a piece, and all receive it.
class SharedWork {
 public:
  virtual ~SharedWork() = default;
  /// Whether this rank computes piece `number`: 0, 1, ..., most costly first.
  virtual bool mine(int number) const = 0;
  /// Enqueues the work that copies the `count` floats at `values`, memory of the device, from the
  /// piece's rank to all. All ranks request the same pieces in the same order.
  virtual void share(Stream& stream, int number, float* values, std::int64_t count) = 0;
};

/// The arenas of a step, layout.count floats each.
struct TrainingState {
  float* parameters = nullptr;
  /// In the order of Optimizer::slots(), zero before the first step.
  std::vector<float*> slots;
  /// Exponential moving average of the parameters; null: there is none.
  float* average = nullptr;
  /// Mean gradients of the step. Between parameters they are zero, like all arenas.
  const float* gradients = nullptr;
  /// decays() of the layout, layout.count / 16 of them.
  const float* decays = nullptr;
  /// Null if the optimizer is not layerwise.
  LayerScratch* scratch = nullptr;
  /// Null: this rank computes all pieces.
  SharedWork* shared = nullptr;
  /// DeviceTraits::lanes.
  std::int64_t lanes = 1;
};

/// Elements that are stepped alike: adjacent parameters with the gaps after them, or parts of them;
/// for a layerwise optimizer, one parameter.
struct UpdateSpan {
  Range range;
  /// Times the learning rate (Parameter::rate).
  float rate = 1;
  /// Index in UpdateRates::shares (Parameter::schedule).
  int schedule = 0;
  /// The parameter's shape, for a layerwise optimizer.
  Shape shape;
  /// Whether an optimizer steps it. Else it contains statistics, or frozen parameters.
  bool stepped = true;

  /// Whether it is a bias, a scale or a shift: these have one extent.
  bool single() const { return shape.rank() == 1; }
};

/// Arithmetic over arenas of the caller. Several threads may use it at once on disjoint ranges,
/// except if it is layerwise.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of its extra values for each parameter. Checkpoints contain them as
  /// optimizer/<name>/<parameter>.
  virtual std::vector<std::string> slots() const = 0;
  virtual Decay decay() const { return Decay::coupled; }
  /// The numbers for its rule in step `step` (0 is the run's first), computed in double once for
  /// all parameters: the corrections of a bias, for example.
  virtual Corrections corrections(std::int64_t /*step*/) const { return {}; }
  /// Whether a step depends on all of a parameter and of its gradient. Its spans are then whole
  /// parameters.
  virtual bool layerwise() const { return false; }
  /// Allocates its memory besides slots and scratch, once, before the first step of any parameter
  /// of `layout`. Throws Error if memory is short.
  virtual void plan(Device& /*device*/, const Layout& /*layout*/) {}
  /// Enqueues the work before update() of any span of a range: the costly pieces of a layerwise
  /// optimizer that this rank computes. update() may step a span together with a later one.
  virtual void begin(Stream& /*stream*/, const UpdateSpan& /*span*/, const TrainingState& /*state*/,
                     const UpdateRates* /*now*/) const {}
  /// Enqueues the step of all elements of `span`, whose ends are multiples of 16, and of their
  /// averages: each() with the Update of net/update.h.
  virtual void update(Stream& stream, const UpdateSpan& span, const TrainingState& state,
                      const UpdateRates* now) const = 0;
};

struct OptimizerEntry {
  static constexpr std::string_view kind = "optimizer";
  std::string_view name;
  std::string_view about;
  /// The default learning rate.
  double rate;
  std::span<const OptimizerOption> options;
  /// `options` has a value for each of its options. Throws the usage error if two of them conflict.
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions& options);
};

std::span<const OptimizerEntry> optimizers();
/// Options that are not in `options` have their defaults.
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options);
/// "sgd, momentum 0.9, nesterov": the name and the options that are not zero.
std::string describe_optimizer(std::string_view name, const OptimizerOptions& options);

/// The decay of a parameter: its group's. Else its model's, plus the run's for weights (more than
/// one extent). Statistics and frozen parameters have none.
float decay_of(const Parameter& parameter, float weight_decay);
/// One number for each 16 elements of an arena: the decay of their parameter, or for a statistic
/// the negative of Parameter::follow.
std::vector<float> decays(const Layout& layout, float weight_decay);

/// The spans of `range`, in arena order. `range` begins and ends at multiples of 16. It may begin
/// and end within a parameter, except with a layerwise optimizer.
std::vector<UpdateSpan> plan_update(const Layout& layout, Range range, const Optimizer& optimizer);

/// Enqueues the step of `spans`, made by plan_update() for `optimizer`. Statistics move towards the
/// step's values, and parameters with a rate of 0 stay. `now` must not change until the work is
/// done.
void update(Stream& stream, const std::vector<UpdateSpan>& spans, const Optimizer& optimizer,
            const TrainingState& state, const UpdateRates* now);

/// The tutorial's warm-up of the average: min(decay, (1 + step) / (10 + step)), with `step` counted
/// from 0.
float average_decay(float decay, std::int64_t step);

/// The number of doubles in `parts` of penalty().
std::int64_t penalty_parts(const Layout& layout);
/// Enqueues `*total` = the sum over all parameters of decay / 2 * sum of squares: the penalty in
/// the loss of a run with coupled decay. `decays` are decays() of the layout. All memory is the
/// device's.
void penalty(Stream& stream, const Layout& layout, const float* parameters, const float* decays,
             double* parts, double* total);

}  // namespace lockstep
