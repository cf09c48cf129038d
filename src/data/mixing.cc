#include "src/data/mixing.h"

#include <algorithm>

namespace lockstep {

Mix draw_mix(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample, std::int64_t size,
             float alpha) {
  Random random(seed, Purpose::mixup, epoch, sample);
  Mix mix;
  mix.partner = random.below(static_cast<std::uint32_t>(size));
  // Joehnk's method: draw two powers of uniform numbers until their sum is at most 1. The weight is
  // the share of the first. Computed in logarithms, because powers underflow for a small alpha.
  const auto power = [&] { return std::log((random.next() + 1.0) * 0x1p-32) / alpha; };
  for (;;) {
    const double one = power(), two = power(), larger = std::max(one, two);
    if (std::exp(one) + std::exp(two) > 1) continue;
    mix.weight = static_cast<float>(std::exp(one - larger) /
                                    (std::exp(one - larger) + std::exp(two - larger)));
    return mix;
  }
}

}  // namespace lockstep
