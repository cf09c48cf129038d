#include "net/optimizer.h"

#include <algorithm>

#include "src/each.h"

namespace lockstep {
namespace {

float l2_of(const Parameter& parameter, float weight_decay) {
  return parameter.l2 + (parameter.shape.rank() > 1 ? weight_decay : 0);
}

}  // namespace

void update(Stream& stream, const Layout& layout, Range range, const Optimizer& optimizer,
            const TrainingState& state, const float* gradients, const UpdateRates& rates) {
  constexpr std::int64_t kBlock =
      4096;  // elements: five arenas of these fit the second-level cache
  for (const Parameter& parameter : layout.parameters) {
    if (!range.contains(parameter.range)) continue;
    const float l2 = l2_of(parameter, rates.weight_decay);
    const std::int64_t count = parameter.range.count, blocks = (count + kBlock - 1) / kBlock;
    parallel_for(stream.threads(), blocks, 16, [&](std::int64_t begin, std::int64_t end) {
      HostStream own;
      std::vector<float*> slots(state.slots.size());
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t place = parameter.range.begin + block * kBlock;
        const std::int64_t here = std::min(kBlock, count - block * kBlock);
        for (std::size_t s = 0; s < slots.size(); ++s) slots[s] = state.slots[s] + place;
        float* p = state.parameters + place;
        optimizer.step(own, here, p, gradients + place, slots, rates.rate, l2);
        if (state.average == nullptr) continue;
        each(own, here,
             [p, average = state.average + place, keep = rates.average_decay](std::int64_t i) {
               average[i] -= (1 - keep) * (average[i] - p[i]);
             });
      }
    });
  }
}

float average_decay(float decay, std::int64_t step) {
  const auto t = static_cast<float>(step);
  return std::min(decay, (1 + t) / (10 + t));
}

double penalty(const Layout& layout, const float* parameters, float weight_decay) {
  double total = 0;
  for (const Parameter& parameter : layout.parameters) {
    const float l2 = l2_of(parameter, weight_decay);
    if (l2 == 0) continue;
    double squares = 0;
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      squares += static_cast<double>(parameters[i]) * parameters[i];
    }
    total += l2 / 2.0 * squares;
  }
  return total;
}

}  // namespace lockstep
