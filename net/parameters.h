// The plan of the parameter arena: every parameter's name, shape and place, laid out in the order
// in which the gradients become ready, so that a bucket of gradients is one contiguous range and a
// Range means the same in every arena (parameters, gradients, optimizer slots, averages).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/round_up.h"
#include "src/base/view.h"

namespace lockstep {

/// The initial values of a parameter.
struct Init {
  enum class Kind { constant, truncated_normal, uniform } kind = Kind::constant;
  /// The constant, the standard deviation, or the limit: uniform in [-scale, scale).
  float scale = 0;
  /// For filters (filters, kernel ..., channels): filter n passes channel n through, for each
  /// channel.
  bool dirac = false;
};

struct Parameter {
  /// "conv1/weights": unique, the name in checkpoints and TensorBoard.
  std::string name;
  Shape shape;
  Init init;
  /// Its decay in the model (net/optimizer.h): with most optimizers the loss has the term
  /// l2 / 2 * sum of squares.
  float l2 = 0;
  /// Place in every arena; begins at a multiple of Layout::kAlignment.
  Range range;
  /// Index of its layer, in forward order.
  int layer = 0;
  /// Above 0 for a statistic (Setup::statistic), which no optimizer steps: the weight of a step's
  /// mean.
  float follow = 0;
  /// Factor of the learning rate, from its layer and its ParameterGroup; 0: frozen.
  float rate = 1;
  /// From its group: replaces l2 and the run's decay.
  std::optional<float> decay = {};
  /// Schedule of its learning rate, from its group: 0 is the run's, n that of Layout::epochs[n -
  /// 1].
  int schedule = 0;

  bool trained() const { return follow == 0; }
  /// Whether an optimizer steps it.
  bool stepped() const { return trained() && rate > 0; }
};

/// All parameters of a model, in arena order (last layer first).
struct Layout {
  /// The first elements of every arena belong to no parameter. In the gradient arena they are the
  /// header of a step (apps/step/step_header.h), which is summed over the ranks with the first
  /// bucket.
  static constexpr std::int64_t kHeader = 16;
  /// Each parameter begins at a multiple of it (64 bytes). Gaps contain zeros.
  static constexpr std::int64_t kAlignment = 16;
  /// The first multiple of kAlignment from `place` on.
  static constexpr std::int64_t aligned(std::int64_t place) { return round_up(place, kAlignment); }

  std::vector<Parameter> parameters;
  /// Elements of an arena, header and alignment gaps included.
  std::int64_t count = kHeader;
  /// The ranges of layers with parameters, in arena order and without gaps.
  std::vector<Range> layers;
  /// The range in `layers` of layer number `layer` (Parameter::layer), which has parameters.
  Range range_of(int layer) const;

  /// Epochs after which groups of parameters freeze. Their learning rate is that of a run that ends
  /// there. Fewer than kSchedules.
  std::vector<double> epochs;
  static constexpr std::size_t kSchedules = 4;

  /// Number of parameters that are trained.
  std::int64_t trainable() const;
};

/// A name as a key of random numbers (FNV-1a).
std::uint32_t hash_of(std::string_view name);

/// Writes initial values, which depend only on (seed, name), into the arena `parameters` of
/// layout.count floats.
void initialize(const Layout& layout, std::uint64_t seed, float* parameters);

}  // namespace lockstep
