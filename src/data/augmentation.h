// Lists of augmentations, and what those of pixels share. Kernels include this file, so it is free
// of fmt (src/device/each.h). DataOptions declares, describes and checks all of a list.
#pragma once

#include <algorithm>
#include <string_view>

#include "src/base/host_device.h"

namespace lockstep {

/// Augmentations with their options.
template <class... Each>
struct AugmentationList : Each... {
  /// Whether one of those is on that have a number.
  constexpr bool any() const { return ((static_cast<const Each&>(*this).value > 0) || ...); }
  /// Calls f with each augmentation.
  template <class F>
  void each(const F& f) {
    (f(static_cast<Each&>(*this)), ...);
  }
  template <class F>
  void each(const F& f) const {
    (f(static_cast<const Each&>(*this)), ...);
  }
};

/// The option of an augmentation that one number switches on; 0: off. Such an augmentation is a
/// trivially copyable struct with
///   T value = 0                           the number, int or float
///   static constexpr AugmentationOption kOption
///   static constexpr Purpose kStream      its random numbers, no other's; never renumber
/// and, if it cannot treat small images, with
///   int least_edge() const                pixels that both edges of an image need
struct AugmentationOption {
  std::string_view name;   ///< as on the command line, without the dashes
  std::string_view about;  ///< OptionRow::about
  std::string_view text;   ///< before the number in the start-up summary
  double most;             ///< the largest number
  std::string_view example;
};

/// Part of an image in pixels; it may reach beyond the image. As constructed it has none.
struct Rectangle {
  int top = 0, left = 0, height = 0, width = 0;

  constexpr bool has(int row, int column) const {
    return row >= top && row < top + height && column >= left && column < left + width;
  }
};

/// An edit (src/data/pixel_edits.h): a rectangle of zeros, the mean of a standardised image.
struct Hole : Rectangle {
  constexpr float at(int row, int column, float value) const {
    return has(row, column) ? 0.0f : value;
  }
  template <class T, class Team>
  HOST_DEVICE void apply(T* y, int lines, int columns, int channels, Team team) const {
    const int begin = std::max(left, 0), behind = std::min(left + width, columns),
              end = std::min(top + height, lines);
    for (int row = std::max(top, 0); row < end; ++row) {
      const int first = row * columns + begin,
                own = (team.lane + team.lanes - first % team.lanes) % team.lanes;
      for (int i = first + own; i < row * columns + behind; i += team.lanes) {
        for (int c = 0; c < channels; ++c) y[i * channels + c] = T(0.0f);
      }
    }
  }
};

}  // namespace lockstep
