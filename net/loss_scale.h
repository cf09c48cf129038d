// Loss scaling: the loss is multiplied by a factor, so that small gradients of 16-bit activations
// do not vanish in the backward pass, and the gradients are divided by it before anybody uses them.
// A dynamic factor is halved by a step whose gradients are not finite, which is skipped, and
// doubled after many that were good.
//
// Source: Micikevicius et al., "Mixed precision training", ICLR 2018, 3.2.
#pragma once

#include <cstdint>
#include <string>

#include "net/optimizer.h"
#include "src/device.h"

namespace lockstep {

/// How the loss is scaled.
struct LossScaling {
  /// A factor whose inverse is the smallest normal number.
  static constexpr float kHighest = 0x1p126f;

  bool dynamic = false;
  /// The factor; of a dynamic one the first. With powers of two gradients keep their bits.
  float scale = 1;
  /// Steps in a row without a skipped one after which a dynamic factor is doubled.
  std::int32_t growth_steps = 2000;

  bool on() const { return dynamic || scale != 1; }
};

/// Where a dynamic factor stands, the same on all ranks.
struct LossScale {
  float scale = 1;           ///< of the next step's loss
  float last = 1;            ///< of the last one's: what its gradients are to be divided by
  std::int32_t good = 0;     ///< steps in a row that were not skipped, since the factor changed
  std::int64_t skipped = 0;  ///< steps of the run

  /// "scale 65536, good 120, skipped 3": for checkpoints, exact.
  std::string text() const;
  /// Throws Error where it is no such text.
  static LossScale from(const std::string& text);
  bool operator==(const LossScale&) const = default;
};

class LossScaler {
 public:
  /// `layout` must outlive it. *state() is for the caller to set.
  LossScaler(Device& device, const Layout& layout, const LossScaling& scaling);

  /// Of the device: what the loss's gradient is multiplied by.
  const float* factor() const { return &state()->scale; }
  /// Of the device.
  LossScale* state() const;

  /// Gives `stream` the work that looks at the gradients of the step, an arena of the layout, all
  /// summed: writes now->scale, which undoes the factor, and now->skip, and moves the factor on.
  /// With a factor of 1 nothing is skipped: such gradients are the model's own.
  void give(Stream& stream, const float* gradients, UpdateRates* now) const;

 private:
  const Layout& layout_;
  LossScaling scaling_;
  Memory memory_;  ///< of the device: a LossScale, then the rows that are not finite
};

}  // namespace lockstep
