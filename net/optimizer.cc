#include "net/optimizer.h"

#include <algorithm>

#include "src/each.h"

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
    const float share = factors[static_cast<std::uint64_t>(i) / kUnit];
    value[i] += share * (found[i] - value[i]);
    if (average != nullptr) average[i] -= (1 - now->average_decay) * (average[i] - value[i]);
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
              parameter.trained() ? decay_of(parameter, weight_decay) : parameter.follow);
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

double penalty(const Layout& layout, const float* parameters, float weight_decay) {
  double total = 0;
  for (const Parameter& parameter : layout.parameters) {
    const float decay = decay_of(parameter, weight_decay);
    if (decay == 0) continue;
    double squares = 0;
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      squares += static_cast<double>(parameters[i]) * parameters[i];
    }
    total += decay / 2.0 * squares;
  }
  return total;
}

}  // namespace lockstep
