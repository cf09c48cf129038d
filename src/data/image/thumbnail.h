// Samples as small pictures for people.
#pragma once

#include <cstdint>
#include <string>

#include "src/data/dataset.h"

namespace lockstep {

struct Thumbnail {
  std::string data_uri;  ///< a PNG file: "data:image/png;base64,..."; empty: the sample is no image
  std::int64_t size = 0;  ///< pixels of its longer edge
};

/// Sample `index` as it is stored, in colours or in grey, without the network's normalisation.
/// Larger images shrink to `edge` pixels. Throws Error if the sample cannot be read.
Thumbnail thumbnail_of(const Dataset& data, std::int64_t index, std::int64_t edge);

}  // namespace lockstep
