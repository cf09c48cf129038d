// Loss scaling: the loss is multiplied by a factor, so that small gradients of 16-bit activations
// do not vanish in the backward pass. The gradients are divided by it before their first use. A
// step whose gradients overflow is skipped, and halves a dynamic factor. Many good steps double it.
//
// Source: Micikevicius et al., "Mixed precision training", ICLR 2018, 3.2.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "net/optimizer.h"
#include "src/device/device.h"

namespace lockstep {

/// The options of loss scaling.
struct LossScaling {
  /// The inverse of the smallest normal number.
  static constexpr float kHighest = 0x1p126f;
  /// The limit if gradients are clipped. Clipping makes the inverse smaller, so this leaves room
  /// for gradients 2^62 times as long as the clip norm.
  static constexpr float kHighestClipped = 0x1p64f;

  bool dynamic = false;
  /// The factor, or the first dynamic factor. With powers of two, gradients keep their bits.
  float scale = 1;
  /// Steps without a skipped one after which a dynamic factor is doubled.
  std::int32_t growth_steps = 2000;
  /// The limit of a dynamic factor.
  float highest = kHighest;

  bool on() const { return dynamic || scale != 1; }
};

/// The state of a dynamic factor, the same on all ranks.
struct LossScale {
  float scale = 1;           ///< of the next step's loss
  float last = 1;            ///< of the last step's loss: its gradients are divided by it
  std::int32_t good = 0;     ///< steps in a row that were not skipped, since the factor changed
  std::int64_t skipped = 0;  ///< steps of the run

  bool skipped_last() const { return scale < last; }  ///< whether the last step was skipped
  /// "scale 65536, good 120, skipped 3": for checkpoints, exact.
  std::string text() const;
  /// Throws Error if `text` is no such text.
  static LossScale from(const std::string& text);
  bool operator==(const LossScale&) const = default;
};

/// The rates of a step that is enqueued while earlier steps are still running. It is not yet known
/// whether those are skipped. The optimizer does not count skipped steps, so rates that depend on
/// the number of steps are chosen when the count is known.
struct RatesBySkips {
  std::int64_t skipped = 0;                               ///< LossScale::skipped, as far as known
  std::array<UpdateRates, 1 + Device::kMostAhead> rates;  ///< [n]: for n more skipped steps
};

class LossScaler {
 public:
  /// It checks the ranges of `layout` that an optimizer steps, and the statistics. The caller sets
  /// *state().
  LossScaler(Device& device, const Layout& layout, const LossScaling& scaling);

  /// Memory of the device: the factor of the loss's gradient.
  const float* factor() const { return &state()->scale; }
  /// Memory of the device.
  LossScale* state() const;

  /// Enqueues the work that checks the summed gradients of the step, an arena of the layout. It
  /// writes to *now those of `rates` that apply, the scale that undoes the factor, and whether the
  /// step is skipped. Then it updates the factor. With a factor of 1 no step is skipped, because
  /// such gradients are the model's own.
  void enqueue(Stream& stream, const float* gradients, const RatesBySkips* rates,
               UpdateRates* now) const;

 private:
  std::vector<Range> used_;
  LossScaling scaling_;
  Memory memory_;  ///< of the device: a LossScale, then the rows that are not finite
};

}  // namespace lockstep
