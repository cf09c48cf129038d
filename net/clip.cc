#include "net/clip.h"

#include <algorithm>
#include <cmath>

#include "src/each.h"

namespace lockstep {
namespace {

/// Blocks that a parameter is cut into.
std::int64_t blocks_of(const Parameter& parameter) {
  return std::clamp<std::int64_t>(parameter.range.count / 4096, 1, 64);
}

struct SumSquares {
  const float* g;
  std::int64_t count, blocks;
  double* partial;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t block, Team team) const {
    double sum = 0;
    for (std::int64_t i = count * block / blocks + team.lane; i < count * (block + 1) / blocks;
         i += team.lanes) {
      sum += static_cast<double>(g[i]) * g[i];
    }
    sum = team.sum(sum);
    if (team.lane == 0) partial[block] = sum;
  }
};

struct Scale {
  const double* partial;
  std::int64_t sums;
  float limit;
  UpdateRates* now;
  HOST_DEVICE void operator()(std::int64_t) const {
    double squares = 0;
    for (std::int64_t i = 0; i < sums; ++i) squares += partial[i];
    const double norm = std::sqrt(squares);
    now->scale = norm > limit ? static_cast<float>(limit / norm) : 1.0f;
  }
};

}  // namespace

GradientClip::GradientClip(Device& device, const Layout& layout, float limit)
    : layout_(layout), limit_(limit) {
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.trained()) sums_ += blocks_of(parameter);
  }
  partial_ = device.allocate(static_cast<std::size_t>(sums_) * sizeof(double), Place::device);
}

void GradientClip::give(Stream& stream, const float* gradients, UpdateRates* now) const {
  auto* partial = reinterpret_cast<double*>(partial_.get());
  for (const Parameter& parameter : layout_.parameters) {
    if (!parameter.trained()) continue;
    const std::int64_t blocks = blocks_of(parameter), count = parameter.range.count;
    each_row(stream, blocks, count / blocks,
             SumSquares{gradients + parameter.range.begin, count, blocks, partial});
    partial += blocks;
  }
  each(stream, 1, Scale{reinterpret_cast<const double*>(partial_.get()), sums_, limit_, now});
}

}  // namespace lockstep
