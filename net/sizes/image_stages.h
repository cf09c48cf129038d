// Progressive resizing: the first epochs of a run train on smaller images, because a step costs
// about as much as its pixels. Source: Howard, "Training Imagenet in 3 hours for USD 25", 2018.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// Until `epoch` the images have this height in pixels.
struct ImageStage {
  std::int64_t height;
  double epoch;
};

/// In the order of the run: heights and epochs rise. After the last one images have all pixels.
using ImageStages = std::vector<ImageStage>;

/// Reads "20:3,24:5.5", or "none". Throws the usage Error.
ImageStages parse_stages(const std::string& text);
/// As parse_stages() reads it.
std::string text_of(const ImageStages& stages);

}  // namespace lockstep
