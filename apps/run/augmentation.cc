#include "apps/run/augmentation.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {

void set_augmentation(const Options& o, Dataset& train) {
  const Shape sample = train.sample_shape();
  const bool images = sample.rank() == 4;
  if (o.crop_padding != kOwnPadding) {
    if (!train.crops()) {
      fail_usage("--crop-padding {}: the samples of data set {} are neither cropped nor moved",
                 o.crop_padding, o.dataset);
    }
    train.pad_crops(o.crop_padding);
  }
  if (o.alternate_flips) {
    if (!train.crops()) {
      fail_usage("--alternate-flips: the samples of data set {} are never mirrored", o.dataset);
    }
    train.alternate_flips(true);
  }
  if (!images && (o.mixing.cutout > 0 || o.mixing.mixup > 0)) {
    fail_usage("--{} is for images, and data set {} has none",
               o.mixing.cutout > 0 ? "cutout" : "mixup", o.dataset);
  }
  if (images && o.mixing.cutout > std::min(sample[1], sample[2])) {
    fail_usage("--cutout {}: the images of data set {} are of {}x{}", o.mixing.cutout, o.dataset,
               sample[1], sample[2]);
  }
}

std::string augmentation_text(const Options& o) {
  std::vector<std::string> parts;
  if (o.crop_padding != kOwnPadding) {
    parts.push_back(
        fmt::format("crops up to {} beyond the edges", counted(o.crop_padding, "pixel")));
  }
  if (o.alternate_flips) parts.emplace_back("mirrored in turns");
  if (o.mixing.cutout > 0) parts.push_back(fmt::format("cutout {}", o.mixing.cutout));
  if (o.mixing.mixup > 0) parts.push_back(fmt::format("mixup {:g}", o.mixing.mixup));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace lockstep
