// A plan is made once: spans of elements that are stepped alike. A step then needs one launch for
// each span, whatever the number of parameters. The decay may differ within a span, so that kernels
// read it for each 16 elements. One array serves both kinds of elements: a negative decay is the
// share by which a statistic follows.
#include "net/optimizer.h"

#include <algorithm>

#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr std::int64_t kUnit = Layout::kAlignment;

/// The part of `parameter`, with the gap after it, that lies in `range`. The gap contains zeros,
/// which each rule keeps, so that a launch may run over it.
Range part_in(Range range, const Parameter& parameter) {
  const std::int64_t begin = std::max(range.begin, parameter.range.begin),
                     end = std::min(range.end(), Layout::aligned(parameter.range.end()));
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

/// A statistic moves towards the step's value, and its average follows it. The share of a frozen
/// parameter is 0.
struct Follow {
  float* value;
  const float* found;
  float* average;  // null: there is none
  const float* decays;
  const UpdateRates* now;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const float share = -decays[static_cast<std::uint64_t>(i) / kUnit];
    // For a frozen parameter, `found` may contain NaN.
    if (share != 0) value[i] += share * (found[i] - value[i]);
    if (average != nullptr) average[i] -= (1 - now->average_decay) * (average[i] - value[i]);
  }
};

/// parts[row] = sum over the units of a row of decay / 2 * squares.
struct DecayedSquares {
  static constexpr std::int64_t kUnits = 64;  // of a row
  const float* parameters;
  const float* decays;
  std::int64_t units;
  double* parts;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t begin = row * kUnits, end = std::min(begin + kUnits, units);
    double sum = 0;
    for (std::int64_t unit = begin + team.lane; unit < end; unit += team.lanes) {
      double squares = 0;
      for (std::int64_t i = unit * kUnit; i < (unit + 1) * kUnit; ++i)
        squares += static_cast<double>(parameters[i]) * static_cast<double>(parameters[i]);
      // The numbers of statistics are negative, and no part of the penalty.
      sum += static_cast<double>(std::max(decays[unit], 0.0f)) / 2 * squares;
    }
    sum = team.sum(sum);
    if (team.lane == 0) parts[row] = sum;
  }
};

struct SumUp {
  const double* parts;
  std::int64_t count;
  double* total;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t, Team team) const {
    double sum = 0;
    for (std::int64_t i = team.lane; i < count; i += team.lanes) sum += parts[i];
    sum = team.sum(sum);
    if (team.lane == 0) *total = sum;
  }
};

void follow(Stream& stream, Range range, const TrainingState& state, const UpdateRates* now) {
  each(stream, range.count,
       Follow{state.parameters + range.begin, state.gradients + range.begin,
              state.average == nullptr ? nullptr : state.average + range.begin,
              state.decays + range.begin / kUnit, now});
}

}  // namespace

float decay_of(const Parameter& parameter, float weight_decay) {
  if (!parameter.stepped()) return 0;
  if (parameter.decay) return *parameter.decay;
  return parameter.l2 + (parameter.shape.rank() > 1 ? weight_decay : 0);
}

std::vector<float> decays(const Layout& layout, float weight_decay) {
  std::vector<float> result(layout.count / kUnit);
  for (const Parameter& parameter : layout.parameters) {
    std::fill(result.begin() + parameter.range.begin / kUnit,
              result.begin() + Layout::aligned(parameter.range.end()) / kUnit,
              parameter.trained() ? decay_of(parameter, weight_decay) : -parameter.follow);
  }
  return result;
}

std::vector<UpdateSpan> plan_update(const Layout& layout, Range range, const Optimizer& optimizer) {
  expect(range.begin % kUnit == 0 && range.count % kUnit == 0, "a range is not aligned");
  const bool layerwise = optimizer.layerwise();
  std::vector<UpdateSpan> spans;  // the last one grows
  for (const Parameter& parameter : layout.parameters) {
    const Range part = part_in(range, parameter);
    if (part.count == 0) continue;
    expect(
        !layerwise || (part.begin == parameter.range.begin && part.end() >= parameter.range.end()),
        "a layerwise optimizer was given a part of a parameter");
    const bool stepped = parameter.stepped();
    // Frozen parameters and statistics have no rate, so that neighbours with different ones share a
    // span.
    const float rate = stepped ? parameter.rate : 1;
    const auto keep_going = [&](const UpdateSpan& last) {
      return part.begin == last.range.end() && stepped == last.stepped && rate == last.rate &&
             parameter.schedule == last.schedule && !layerwise;
    };
    if (spans.empty() || !keep_going(spans.back()))
      spans.push_back({{part.begin, 0}, rate, parameter.schedule, parameter.shape, stepped});
    spans.back().range.count += part.count;
  }
  return spans;
}

void update(Stream& stream, const std::vector<UpdateSpan>& spans, const Optimizer& optimizer,
            const TrainingState& state, const UpdateRates* now) {
  // All costly pieces of this rank come first. Otherwise it would wait in update() for pieces of
  // other ranks, while they wait for its own.
  for (const UpdateSpan& span : spans) {
    if (span.stepped) optimizer.begin(stream, span, state, now);
  }
  for (const UpdateSpan& span : spans) {
    if (span.stepped)
      optimizer.update(stream, span, state, now);
    else
      follow(stream, span.range, state, now);
  }
}

float average_decay(float decay, std::int64_t step) {
  const auto t = static_cast<float>(step);
  return std::min(decay, (1 + t) / (10 + t));
}

std::int64_t penalty_parts(const Layout& layout) {
  const std::int64_t units = layout.count / kUnit;
  return ceil_div(units, DecayedSquares::kUnits);
}

void penalty(Stream& stream, const Layout& layout, const float* parameters, const float* decays,
             double* parts, double* total) {
  const std::int64_t rows = penalty_parts(layout);
  each_row(stream, rows, DecayedSquares::kUnits * kUnit,
           DecayedSquares{parameters, decays, layout.count / kUnit, parts});
  each_row(stream, 1, rows, SumUp{parts, rows, total});
}

}  // namespace lockstep
