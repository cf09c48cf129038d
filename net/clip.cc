#include "net/clip.h"

#include <cmath>

#include "net/block_sums.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

struct Square {
  static constexpr int kSums = 1;
  const float* g;
  HOST_DEVICE void operator()(std::int64_t i, double* sums) const {
    sums[0] += static_cast<double>(g[i]) * g[i];
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
    const double norm = std::sqrt(squares) * static_cast<double>(now->scale);
    if (norm > limit) now->scale *= static_cast<float>(limit / norm);
  }
};

}  // namespace

GradientClip::GradientClip(Device& device, const Layout& layout, float limit)
    : layout_(layout), limit_(limit) {
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.stepped()) sums_ += blocks_of(parameter.range.count);
  }
  partial_ = device.allocate(sums_ * sizeof(double), Place::device);
}

void GradientClip::enqueue(Stream& stream, const float* gradients, UpdateRates* now) const {
  auto* partial = reinterpret_cast<double*>(partial_.get());
  for (const Parameter& parameter : layout_.parameters) {
    if (!parameter.stepped()) continue;
    give_block_sums(stream, parameter.range.count, Square{gradients + parameter.range.begin},
                    partial);
    partial += blocks_of(parameter.range.count);
  }
  each(stream, 1, Scale{reinterpret_cast<const double*>(partial_.get()), sums_, limit_, now});
}

}  // namespace lockstep
