#include "net/optimizer.h"

#include <algorithm>

#include "src/each.h"
#include "src/round_up.h"

namespace lockstep {
namespace {

constexpr std::int64_t kUnit = Layout::kAlignment;

/// `parameter` with the gap behind it, as far as it lies in `range`.
Range part_in(Range range, const Parameter& parameter) {
  const std::int64_t begin = std::max(range.begin, parameter.range.begin),
                     end = std::min(range.end(), Layout::aligned(parameter.range.end()));
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

/// A statistic takes its share of what the step has found, and its average follows it.
struct Follow {
  float* value;
  const float* found;
  float* average;  // null: none is kept
  const float* factors;
  const UpdateRates* now;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const float share = -factors[static_cast<std::uint64_t>(i) / kUnit];
    value[i] += share * (found[i] - value[i]);
    if (average != nullptr) average[i] -= (1 - now->average_decay) * (average[i] - value[i]);
  }
};

/// parts[row] = sum over the units of a row of decay / 2 * squares.
struct DecayedSquares {
  static constexpr std::int64_t kUnits = 64;  // of a row
  const float* parameters;
  const float* factors;
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
      sum += static_cast<double>(std::max(factors[unit], 0.0f)) / 2 * squares;
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

/// One launch over `run`, parameters that lie side by side, `trained` or statistics.
void update_run(Stream& stream, Range run, bool trained, const Optimizer& optimizer,
                const TrainingState& state, const UpdateRates* now) {
  if (run.count == 0) return;
  if (trained) return optimizer.update(stream, run, state, now);
  each(stream, run.count,
       Follow{state.parameters + run.begin, state.gradients + run.begin,
              state.average == nullptr ? nullptr : state.average + run.begin,
              state.factors + run.begin / kUnit, now});
}

}  // namespace

float decay_of(const Parameter& parameter, float weight_decay) {
  if (!parameter.trained()) return 0;
  return parameter.l2 + (parameter.shape.rank() > 1 ? weight_decay : 0);
}

std::vector<float> factors(const Layout& layout, float weight_decay) {
  std::vector<float> result(static_cast<std::size_t>(layout.count / kUnit));
  for (const Parameter& parameter : layout.parameters) {
    std::fill(result.begin() + parameter.range.begin / kUnit,
              result.begin() + Layout::aligned(parameter.range.end()) / kUnit,
              parameter.trained() ? decay_of(parameter, weight_decay) : -parameter.follow);
  }
  return result;
}

void update(Stream& stream, const Layout& layout, Range range, const Optimizer& optimizer,
            const TrainingState& state, const UpdateRates* now) {
  expect(range.begin % kUnit == 0 && range.count % kUnit == 0, "a range is not aligned");
  Range run;
  bool trained = true;
  for (const Parameter& parameter : layout.parameters) {
    const Range part = part_in(range, parameter);
    if (part.count == 0) continue;
    if (part.begin != run.end() || parameter.trained() != trained) {
      update_run(stream, run, trained, optimizer, state, now);
      run = {part.begin, 0};
      trained = parameter.trained();
    }
    run.count += part.count;
  }
  update_run(stream, run, trained, optimizer, state, now);
}

float average_decay(float decay, std::int64_t step) {
  const auto t = static_cast<float>(step);
  return std::min(decay, (1 + t) / (10 + t));
}

std::int64_t penalty_parts(const Layout& layout) {
  const std::int64_t units = layout.count / kUnit;
  return ceil_div(units, DecayedSquares::kUnits);
}

void penalty(Stream& stream, const Layout& layout, const float* parameters, const float* factors,
             double* parts, double* total) {
  const std::int64_t rows = penalty_parts(layout);
  each_row(stream, rows, DecayedSquares::kUnits * kUnit,
           DecayedSquares{parameters, factors, layout.count / kUnit, parts});
  each_row(stream, 1, rows, SumUp{parts, rows, total});
}

}  // namespace lockstep
