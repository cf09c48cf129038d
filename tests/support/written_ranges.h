// The ranges of the layers whose gradients a backward pass has written, in the order of the calls.
#pragma once

#include <vector>

#include "net/layer.h"

namespace lockstep {

struct WrittenRanges : GradientListener {
  explicit WrittenRanges(const Layout& layout) : layout(layout) {}
  void written(int layer) override { ranges.push_back(layout.range_of(layer)); }

  const Layout& layout;
  std::vector<Range> ranges;
};

}  // namespace lockstep
