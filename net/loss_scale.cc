#include "net/loss_scale.h"

#include <bit>

#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// Counts the rows that hold an infinity or a NaN.
struct FindWrong {
  static constexpr std::int64_t kColumns = 1024;
  const float* g;
  std::int64_t count;
  std::uint32_t* wrong;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    constexpr std::uint32_t kExponent = 0x7f800000;
    const std::int64_t begin = row * kColumns,
                       end = begin + kColumns < count ? begin + kColumns : count;
    std::uint32_t found = 0;
    for (std::int64_t i = begin + team.lane; i < end; i += team.lanes)
      found |= (std::bit_cast<std::uint32_t>(g[i]) & kExponent) == kExponent;
    found = team.max(found);
    if (team.lane == 0 && found != 0) add_atomically(*wrong, 1);
  }
};

struct Judge {
  LossScale* state;
  std::uint32_t* wrong;
  std::int32_t growth_steps;
  float highest;
  const RatesBySkips* rates;
  UpdateRates* now;
  HOST_DEVICE void operator()(std::int64_t) const {
    LossScale next = *state;
    const bool skip = *wrong != 0 && next.scale > 1;
    *now = rates->rates[next.skipped - rates->skipped];
    now->scale = 1 / next.scale;
    now->skip = skip;
    next.last = next.scale;
    if (skip) {
      next.scale = next.scale > 2 ? next.scale / 2 : 1;
      next.good = 0;
      ++next.skipped;
    } else if (++next.good >= growth_steps) {
      next.scale = 2 * next.scale < highest ? 2 * next.scale : highest;
      next.good = 0;
    }
    *state = next;
    *wrong = 0;
  }
};

}  // namespace

LossScaler::LossScaler(Device& device, const Layout& layout, const LossScaling& scaling)
    : scaling_(scaling),
      memory_(device.allocate(sizeof(LossScale) + sizeof(std::uint32_t), Place::device)) {
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.trained() && !parameter.stepped()) continue;
    const Range range = {parameter.range.begin, Layout::aligned(parameter.range.count)};
    if (!used_.empty() && used_.back().end() == range.begin) {
      used_.back().count += range.count;
    } else {
      used_.push_back(range);
    }
  }
}

LossScale* LossScaler::state() const { return reinterpret_cast<LossScale*>(memory_.get()); }

void LossScaler::enqueue(Stream& stream, const float* gradients, const RatesBySkips* rates,
                         UpdateRates* now) const {
  auto* wrong = reinterpret_cast<std::uint32_t*>(memory_.get() + sizeof(LossScale));
  for (const Range& range : used_) {
    each_row(stream, ceil_div(range.count, FindWrong::kColumns), FindWrong::kColumns,
             FindWrong{gradients + range.begin, range.count, wrong});
  }
  each(stream, 1, Judge{state(), wrong, scaling_.growth_steps, scaling_.highest, rates, now});
}

}  // namespace lockstep
