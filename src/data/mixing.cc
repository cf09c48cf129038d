#include "src/data/mixing.h"

#include <algorithm>

#include "src/base/elementary.h"

namespace lockstep {
namespace {

/// A number of the distribution Beta(alpha, alpha). Joehnk's method: draw two powers of uniform
/// numbers until their sum is at most 1. The result is the share of the first. Computed in
/// logarithms, because powers underflow for a small alpha.
float draw_beta(Random& random, float alpha) {
  // The numbers are in (0, 1], because the logarithm of 0 is infinite.
  const auto power = [&] { return natural_log((random.next() + 1.0) * 0x1p-32) / alpha; };
  for (;;) {
    const double one = power(), two = power(), larger = std::max(one, two);
    if (exponential(one) + exponential(two) > 1) continue;
    // Both powers are divided by the larger one, so not both can underflow. The quotient is the
    // same.
    return exponential(one - larger) / (exponential(one - larger) + exponential(two - larger));
  }
}

/// The rectangle around any pixel that has 1 - share of the image, without what lies outside.
Mix draw_cutmix(Random& random, std::int64_t size, float alpha, int height, int width) {
  Mix mix;
  mix.partner = random.below(size);
  const double half = 0.5 * std::sqrt(1 - double{draw_beta(random, alpha)});
  const auto span = [&](int extent, int& begin, int& count) {
    const int centre = random.below(extent), reach = static_cast<int>(half * extent);
    begin = std::max(centre - reach, 0);
    count = std::min(centre + reach, extent) - begin;
  };
  Rectangle& box = mix.pasted;
  span(width, box.left, box.width);
  span(height, box.top, box.height);
  // The weight follows from the area that was pasted, which may be cut off at the edges.
  mix.weight = 1 - double{1} * box.height * box.width / (double{1} * height * width);
  if (box.height == 0 || box.width == 0) box = {0, 0, 1, 0};  // without height: mixup
  return mix;
}

}  // namespace

Mix draw_mix(std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample, std::int64_t size,
             float alpha) {
  Random random(seed, Mixup::kStream, epoch, sample);
  Mix mix;
  mix.partner = random.below(size);
  mix.weight = draw_beta(random, alpha);
  return mix;
}

Mix draw_mix(const Mixing& mixing, std::uint64_t seed, std::uint32_t epoch, std::uint32_t sample,
             std::int64_t size, std::int64_t height, std::int64_t width) {
  const float mixup = mixing.Mixup::value, cutmix = mixing.CutMix::value;
  if (cutmix > 0) {
    // The coin is drawn also without mixup, so that mixup leaves the numbers of CutMix as they are.
    Random random(seed, CutMix::kStream, epoch, sample);
    const bool chosen = random.below(2) == 1;
    if (chosen || mixup == 0) {
      return draw_cutmix(random, size, cutmix, height, width);
    }
  }
  return draw_mix(seed, epoch, sample, size, mixup);
}

}  // namespace lockstep
