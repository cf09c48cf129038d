// Images and sequences as one: layers with windows compute N, L, C as images of one row.
#pragma once

#include <string>

#include "net/layers.h"

namespace lockstep {

/// N, H, W, C of `in`. Throws Error that names `layer` for other shapes.
inline Shape as_image(Shape in, const std::string& layer) {
  if (in.rank() == 3) return {in[0], 1, in[1], in[2]};
  if (in.rank() == 4) return in;
  throw Error(layer + " needs N, H, W, C or N, L, C; its input is " + in.text());
}

/// `image` as N, L, C if `in` is that, else as it is.
inline Shape like(Shape in, Shape image) {
  return in.rank() == 4 ? image : Shape{image[0], image[2], image[3]};
}

}  // namespace lockstep
