// Clipping by the global norm: if all gradients of a step together are longer than a limit, they
// are scaled down to it.
//
// Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
// ICML 2013.
#pragma once

#include "net/optimizer.h"
#include "src/device/device.h"

namespace lockstep {

class GradientClip {
 public:
  GradientClip(Device& device, const Layout& layout, float limit);

  /// Enqueues the work that reduces now->scale, the factor of these gradients, until they keep to
  /// the limit. `gradients` is an arena of the layout. Statistics and frozen parameters do not
  /// count. The order of the sum depends only on the layout.
  void enqueue(Stream& stream, const float* gradients, UpdateRates* now) const;

 private:
  float limit_;
  /// Parts of parameters, each summed by one team: their ranges and sums on the device.
  std::int64_t parts_ = 0, part_size_ = 0;
  Memory ranges_, sums_;
};

}  // namespace lockstep
