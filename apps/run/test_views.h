// Views of an image in an evaluation: mirrored, and moved by a pixel. Source: Jordan, "94% on
// CIFAR-10 in 3.29 seconds on a single GPU", 2024, 3.5 (its multi-crop evaluation).
#pragma once

#include <array>

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

/// Enqueues sum += weight * logits in fp32; with `first`, sum = weight * logits.
void add_weighted(Stream& stream, View logits, float weight, bool first, View sum);

}  // namespace lockstep
