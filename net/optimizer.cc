#include "net/optimizer.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr std::int64_t kUnit = Layout::kAlignment;

/// `parameter` with the gap behind it, as far as it lies in `range`.
Range part_in(Range range, const Parameter& parameter) {
  const std::int64_t begin = std::max(range.begin, parameter.range.begin),
                     end = std::min(range.end(), Layout::aligned(parameter.range.end()));
  return {begin, std::max<std::int64_t>(end - begin, 0)};
}

}  // namespace

float decay_of(const Parameter& parameter, float weight_decay) {
  return parameter.l2 + (parameter.shape.rank() > 1 ? weight_decay : 0);
}

std::vector<float> factors(const Layout& layout, float weight_decay) {
  std::vector<float> result(static_cast<std::size_t>(layout.count / kUnit));
  for (const Parameter& parameter : layout.parameters) {
    std::fill(result.begin() + parameter.range.begin / kUnit,
              result.begin() + Layout::aligned(parameter.range.end()) / kUnit,
              decay_of(parameter, weight_decay));
  }
  return result;
}

void update(Stream& stream, const Layout& layout, Range range, const Optimizer& optimizer,
            const TrainingState& state, const UpdateRates* now) {
  expect(range.begin % kUnit == 0 && range.count % kUnit == 0, "a range is not aligned");
  Range run;
  for (const Parameter& parameter : layout.parameters) {
    const Range part = part_in(range, parameter);
    if (part.count == 0) continue;
    if (run.count > 0 && part.begin == run.end()) {
      run.count += part.count;
      continue;
    }
    if (run.count > 0) optimizer.update(stream, run, state, now);
    run = part;
  }
  if (run.count > 0) optimizer.update(stream, run, state, now);
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
