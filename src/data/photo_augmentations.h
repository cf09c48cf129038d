// The registry of augmentations of photos.
#pragma once

#include <array>
#include <string>

#include "src/base/random.h"
#include "src/data/augmentation.h"

namespace lockstep {

class OptionRows;
struct Image;

// A photo augmentation is a struct here, a word in the list and one file in src/data/image. It has
//   void declare(OptionRows&)                 of its members, which by default are off
//   std::string text() const                  for the start-up summary; empty: it is off
//   void apply(Image&, Random&) const         draws no numbers if it is off

/// Random changes of colours, each by a factor within its bound and in a random order.
struct ColorJitter {
  /// Bounds of brightness, contrast, saturation (0 to 1) and hue (0 to 0.5); 0: none.
  std::array<double, 4> bounds{};

  void declare(OptionRows& rows);
  std::string text() const;
  void apply(Image& image, Random& random) const;
};

/// One random operation of TrivialAugmentWide with a random strength and sign.
struct TrivialAugment {
  bool on = false;

  void declare(OptionRows& rows);
  std::string text() const { return on ? "TrivialAugment" : ""; }
  void apply(Image& image, Random& random) const;
};

/// In the order of their work on a photo that is resized, which decides the random numbers of each.
struct PhotoAugmentations : AugmentationList<ColorJitter, TrivialAugment> {};

}  // namespace lockstep
