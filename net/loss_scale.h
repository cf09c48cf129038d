// Loss scaling: the loss is multiplied by a factor, so that small gradients of 16-bit activations
// do not vanish in the backward pass, and the gradients are divided by it before anybody uses them.
// A dynamic factor is halved by a step whose gradients are not finite, which is skipped, and
// doubled after many that were good.
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

/// How the loss is scaled.
struct LossScaling {
  /// A factor whose inverse is the smallest normal number.
  static constexpr float kHighest = 0x1p126f;
  /// Where gradients are clipped, which makes that inverse smaller: there is room for gradients
  /// that are 2^62 times as long as they may be.
  static constexpr float kHighestClipped = 0x1p64f;

  bool dynamic = false;
  /// The factor; of a dynamic one the first. With powers of two gradients keep their bits.
  float scale = 1;
  /// Steps in a row without a skipped one after which a dynamic factor is doubled.
  std::int32_t growth_steps = 2000;
  /// What a dynamic factor is never doubled beyond.
  float highest = kHighest;

  bool on() const { return dynamic || scale != 1; }
};

/// Where a dynamic factor stands, the same on all ranks.
struct LossScale {
  float scale = 1;           ///< of the next step's loss
  float last = 1;            ///< of the last one's: what its gradients are to be divided by
  std::int32_t good = 0;     ///< steps in a row that were not skipped, since the factor changed
  std::int64_t skipped = 0;  ///< steps of the run

  bool skipped_last() const { return scale < last; }  ///< whether the last step was skipped
  /// "scale 65536, good 120, skipped 3": for checkpoints, exact.
  std::string text() const;
  /// Throws Error where it is no such text.
  static LossScale from(const std::string& text);
  bool operator==(const LossScale&) const = default;
};

/// The rates of a step that is given while steps before it are still under way, of which nobody
/// knows yet whether they are skipped. For the optimizer a skipped step has never been, so that
/// rates that depend on the number of steps wait for the count.
struct RatesBySkips {
  std::int64_t skipped = 0;  ///< LossScale::skipped as far as it is known
  std::array<UpdateRates, 1 + Device::kMostAhead> rates;  ///< [n]: where it is n more
};

class LossScaler {
 public:
  /// Of `layout` the ranges are kept that an optimizer steps, and the statistics that follow.
  /// *state() is for the caller to set.
  LossScaler(Device& device, const Layout& layout, const LossScaling& scaling);

  /// Of the device: what the loss's gradient is multiplied by.
  const float* factor() const { return &state()->scale; }
  /// Of the device.
  LossScale* state() const;

  /// Gives `stream` the work that looks at the gradients of the step, an arena of the layout, all
  /// summed, but for those that nobody uses: writes to *now those of `rates` that apply, with
  /// the scale that undoes the factor, and whether the step is skipped, and moves the factor on.
  /// With a factor of 1 nothing is skipped: such gradients are the model's own.
  void give(Stream& stream, const float* gradients, const RatesBySkips* rates,
            UpdateRates* now) const;

 private:
  std::vector<Range> used_;
  LossScaling scaling_;
  Memory memory_;  ///< of the device: a LossScale, then the rows that are not finite
};

}  // namespace lockstep
