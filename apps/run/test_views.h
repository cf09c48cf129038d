// Views of an image in an evaluation: mirrored, and moved by a pixel. Source: Jordan, "94% on
// CIFAR-10 in 3.29 seconds on a single GPU", 2024, 3.5 (its multi-crop evaluation). The moved views
// only of uncertain images: as Hiverge's record of CIFAR-10, October 2025, which takes a quarter.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "src/base/host_device.h"
#include "src/device/device.h"

namespace lockstep {

/// One view of an image: moved down and right by `shift` pixels, reflected at its edges, then
/// mirrored left to right.
struct TestView {
  int shift;
  bool mirror;
  float weight;
};

/// Weights add up to 1.
inline constexpr std::array<TestView, 6> kTestViews{{{0, false, 0.25f},
                                                     {0, true, 0.25f},
                                                     {1, false, 0.125f},
                                                     {1, true, 0.125f},
                                                     {-1, false, 0.125f},
                                                     {-1, true, 0.125f}}};

/// Enqueues `to` = the view of `images` (N, H, W, C of a floating-point type).
void see(Stream& stream, View images, const TestView& view, View to);

/// The views of every image: the first ones, whose weights add up to 1 / kFirstFactor. The others
/// are of uncertain images.
inline constexpr std::size_t kFirstViews = 2;
inline constexpr float kFirstFactor = 2;

/// An image is certain if the highest mean logit of its first views is this much above each other
/// one: log(8). So its highest probability is at least 8 times the next, with label smoothing too.
/// With 93.3 % of CIFAR-10's test images right, 28 % are uncertain.
inline constexpr float kCertain = 2.0794415f;

/// Enqueues sum = before + weight * logits in fp32. `before` may be `sum`, or empty: 0.
void add_weighted(Stream& stream, View logits, float weight, View before, View sum);

/// Whether an image is certain. `sums`: its weighted logits, added over the first views. A NaN is
/// no logit; without logits it is uncertain.
HOST_DEVICE inline bool is_certain(const float* sums, std::int64_t classes) {
  float highest = -std::numeric_limits<float>::infinity(), next = highest;
  for (std::int64_t c = 0; c < classes; ++c) {
    next = sums[c] > highest ? highest : sums[c] > next ? sums[c] : next;
    highest = sums[c] > highest ? sums[c] : highest;
  }
  return (highest - next) * kFirstFactor >= kCertain;
}

/// Enqueues mean = kFirstFactor * first in the rows of certain images. `first`: as above, in rows.
void choose_certain(Stream& stream, View first, View mean);

}  // namespace lockstep
