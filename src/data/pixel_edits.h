// The registry of augmentations of pixels, and their work on one image. Their random numbers are
// keyed by (seed, epoch, sample), so they depend on no rank, shard or batch. One body serves host
// and device.
#pragma once

#include <cstdint>
#include <utility>

#include "src/data/cutout.h"
#include "src/data/random_erasing.h"

namespace lockstep {

/// Changes of the standardised values of one image, in this order. Another one is a struct like
/// Cutout in a file of its own, and one word here. Its draw() returns an edit, which as constructed
/// changes nothing, with
///   HOST_DEVICE float at(int row, int column, float value) const    the edited value
///   HOST_DEVICE void apply(T* y, int lines, int columns, int channels, Team) const
/// apply() edits the image at `y`, of which each lane has written every lanes-th pixel. Each lane
/// edits the pixels that it has written.
using PixelAugmentations = AugmentationList<Cutout, RandomErasing>;

template <class List>
struct PixelEditsOf;

template <class Augmentation>
struct PixelEdit {
  decltype(Augmentation().draw(std::declval<Random&>(), 0, 0)) edit;
};

/// The edits of a list for one image. As constructed they change nothing.
template <class... Each>
struct PixelEditsOf<AugmentationList<Each...>> : PixelEdit<Each>... {
  static HOST_DEVICE PixelEditsOf draw(const AugmentationList<Each...>& asked, std::uint64_t seed,
                                       std::uint32_t epoch, std::uint32_t sample,
                                       std::int64_t height, std::int64_t width) {
    PixelEditsOf edits;
    const auto draw_one = [&]<class Augmentation>(const Augmentation& augmentation, auto& edit) {
      if (augmentation.value <= 0) return;
      Random random(seed, Augmentation::kStream, epoch, sample);
      edit = augmentation.draw(random, height, width);
    };
    (draw_one(static_cast<const Each&>(asked), static_cast<PixelEdit<Each>&>(edits).edit), ...);
    return edits;
  }
  HOST_DEVICE float at(int row, int column, float value) const {
    ((value = PixelEdit<Each>::edit.at(row, column, value)), ...);
    return value;
  }
  template <class T, class Team>
  HOST_DEVICE void apply(T* y, int lines, int columns, int channels, Team team) const {
    (PixelEdit<Each>::edit.apply(y, lines, columns, channels, team), ...);
  }
};
using PixelEdits = PixelEditsOf<PixelAugmentations>;

}  // namespace lockstep
