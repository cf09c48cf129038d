// Clipping by the global norm: the gradients of a step that are longer than a limit, all together,
// are scaled down to it.
//
// Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
// ICML 2013.
#pragma once

#include <vector>

#include "net/optimizer.h"
#include "src/device/device.h"

namespace lockstep {

class GradientClip {
 public:
  /// `layout` must outlive it.
  GradientClip(Device& device, const Layout& layout, float limit);

  /// Gives `stream` the work that makes now->scale, by which these gradients, an arena of the
  /// layout, are to be multiplied anyway, as small as the limit wants it; statistics and parameters
  /// that stay as they are do not count. The order of the sum depends on the layout alone.
  void give(Stream& stream, const float* gradients, UpdateRates* now) const;

 private:
  const Layout& layout_;
  float limit_;
  std::int64_t sums_ = 0;
  Memory partial_;
};

}  // namespace lockstep
