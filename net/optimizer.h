// Optimizer: how a gradient becomes a step. The menu is net/optimizers.cc; update() applies one to
// a range of the arenas.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/parameters.h"
#include "src/device.h"

namespace lockstep {

/// What options and model may ask of an optimizer.
struct OptimizerOptions {
  float momentum = 0;
  bool nesterov = false;
  float weight_decay =
      0;  ///< added to every weight's gradient (not to biases), on top of the model's own l2 terms
};

/// Pure arithmetic over arenas that others own. May be used by several threads at once, on disjoint
/// elements.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Names of the extra values it keeps for each parameter; saved in checkpoints as
  /// optimizer/<name>/<parameter>.
  virtual std::vector<std::string> slots() const = 0;
  /// parameter -= step for `count` elements. `slots` are in the order of slots(), zero before the
  /// first step; the gradient of l2 / 2 * parameter^2 is added to `gradient`.
  virtual void step(Stream& stream, std::int64_t count, float* parameter, const float* gradient,
                    std::span<float* const> slots, float rate, float l2) const = 0;
  /// "sgd, momentum 0.9, nesterov"
  virtual std::string describe() const = 0;
};

struct OptimizerEntry {
  static constexpr std::string_view kind = "optimizer";
  std::string_view name;
  std::string_view about;
  std::unique_ptr<Optimizer> (*make)(const OptimizerOptions&);
};

std::span<const OptimizerEntry> optimizers();
std::unique_ptr<Optimizer> make_optimizer(std::string_view name, const OptimizerOptions& options);

/// The arenas (layout.count floats each) that one step changes.
struct TrainingState {
  float* parameters = nullptr;
  std::vector<float*> slots;
  float* average = nullptr;  ///< exponential moving average of the parameters; null: none is kept
};

struct UpdateRates {
  float rate = 0;           ///< learning rate
  float weight_decay = 0;   ///< of weights (parameters with more than one extent)
  float average_decay = 0;  ///< average = decay * average + (1 - decay) * parameter
};

/// Steps all parameters that lie in `range` and moves their averages, in blocks that stay in cache
/// for both.
void update(Stream& stream, const Layout& layout, Range range, const Optimizer& optimizer,
            const TrainingState& state, const float* gradients, const UpdateRates& rates);

/// The tutorial's warm-up of the average: min(decay, (1 + step) / (10 + step)), with `step` counted
/// from 0.
float average_decay(float decay, std::int64_t step);

/// Sum over all parameters of l2 / 2 * sum of squares: the penalty in the loss. In double, in arena
/// order.
double penalty(const Layout& layout, const float* parameters, float weight_decay);

}  // namespace lockstep
