// The plan of the parameter arena: every parameter's name, shape and place, laid out in the order
// in which the gradients become ready, so that a bucket of gradients is one contiguous range and a
// Range means the same in every arena (parameters, gradients, optimizer slots, averages).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/view.h"

namespace lockstep {

/// How a parameter begins.
struct Init {
  enum class Kind { constant, truncated_normal } kind = Kind::constant;
  float scale = 0;  ///< the constant, or the standard deviation
};

struct Parameter {
  std::string name;  ///< "conv1/weights": unique, the name in checkpoints and TensorBoard
  Shape shape;
  Init init;
  float l2 = 0;   ///< the loss has the term l2 / 2 * sum of squares
  Range range;    ///< place in every arena, aligned to 16 elements
  int layer = 0;  ///< index of its layer, in forward order
};

/// All parameters of a model, in arena order (last layer first).
struct Layout {
  /// The first elements of every arena belong to no parameter: in the gradient arena they carry the
  /// step's totals (apps/trainer.cc), which are summed over the ranks with the first bucket.
  static constexpr std::int64_t kMail = 16;

  std::vector<Parameter> parameters;
  std::int64_t count = kMail;  ///< elements of an arena, mail and alignment gaps included
  std::vector<Range>
      layers;  ///< each layer's range in arena order, layers without parameters left out; gapless

  std::int64_t trainable() const;  ///< number of parameters, without mail and gaps
};

/// Writes initial values, keyed by (seed, name) alone, into the arena `parameters` of layout.count
/// floats.
void initialize(const Layout& layout, std::uint64_t seed, float* parameters);

}  // namespace lockstep
