// The state of loss scaling as text. net/loss_scale.cc cannot include fmt (src/device/each.h).

#include <cmath>

#include "net/loss_scale.h"
#include "src/base/check.h"

namespace lockstep {

std::string LossScale::text() const {
  return fmt::format("scale {}, good {}, skipped {}", scale, good, skipped);
}

LossScale LossScale::from(const std::string& text) {
  LossScale state;
  long long good = -1, skipped = -1;
  const bool read = std::sscanf(text.c_str(), "scale %f, good %lld, skipped %lld", &state.scale,
                                &good, &skipped) == 3;
  state.last = state.scale;
  state.good = static_cast<std::int32_t>(good);
  state.skipped = skipped;
  require(read && state.text() == text && state.scale >= 1 && std::isfinite(state.scale) &&
              good >= 0 && skipped >= 0,
          "\"{}\" is no state of a loss scale", text);
  return state;
}

}  // namespace lockstep
