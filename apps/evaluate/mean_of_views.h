// The mean logits of images over views that are mirrored, and moved by a pixel: --test-views.
// Source: Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU", 2024, 3.5 (its multi-crop
// evaluation).
#pragma once

#include <array>

#include "net/model.h"
#include "src/device/arena.h"

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

/// The weighted mean over kTestViews. An image's mean is the same in any batch. One thread at a
/// time.
class MeanOfViews {
 public:
  /// For batches of `model`. It and the device outlive this.
  MeanOfViews(Device& device, Model& model, int classes);
  std::size_t bytes() const { return arena_.bytes(); }

  /// Enqueues the mean of a batch in fp32, valid until the next call.
  View of_batch(Stream& stream, View images);

 private:
  Model& model_;
  const std::int64_t classes_;
  std::size_t seen_, mean_;  ///< places of a batch: one view, and the mean logits
  Arena arena_;
};

}  // namespace lockstep
