// Images and sequences as one: layers with windows take N, H, W, C or N, L, C, and see the latter
// as images of one row.
#pragma once

#include <string>

#include "net/layers.h"

namespace lockstep {

/// N, H, W, C of `in`. Throws Error, in the name of `layer`, for other shapes.
inline Shape as_image(Shape in, const std::string& layer) {
  if (in.rank() == 3) return {in[0], 1, in[1], in[2]};
  if (in.rank() == 4) return in;
  throw Error(layer + " wants N, H, W, C or N, L, C, and is given " + in.text());
}

/// N, L, C again where that went in.
inline Shape like(Shape in, Shape image) {
  return in.rank() == 4 ? image : Shape{image[0], image[2], image[3]};
}

/// Throws Error where nothing comes out of `layer`, which is given `in`.
inline void require_some(Shape out, Shape in, const std::string& layer) {
  for (int axis = 0; axis < out.rank(); ++axis) {
    if (out[axis] < 1)
      throw Error(layer + " has a larger window than what it is given, " + in.text());
  }
}

}  // namespace lockstep
