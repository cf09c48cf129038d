// One step of an optimizer, planned for this call.
#pragma once

#include "net/optimizer.h"

namespace lockstep {

inline void update(Stream& stream, const Layout& layout, Range range, const Optimizer& optimizer,
                   const TrainingState& state, const UpdateRates* now) {
  update(stream, plan_update(layout, range, optimizer), optimizer, state, now);
}

}  // namespace lockstep
