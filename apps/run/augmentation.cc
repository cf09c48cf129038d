#include "apps/run/augmentation.h"

#include <algorithm>

#include "src/base/check.h"
#include "src/base/plural.h"

namespace lockstep {

void set_augmentation(const Options& o, Dataset& train) {
  const Shape sample = train.sample_shape();
  const bool images = sample.rank() == 4;
  if (o.data.crop_padding != kOwnPadding) {
    if (!train.crops()) {
      fail_usage("--crop-padding {}: the samples of data set {} are neither cropped nor moved",
                 o.data.crop_padding, o.data.dataset);
    }
    train.pad_crops(o.data.crop_padding);
  }
  if (o.data.alternate_flips) {
    if (!train.crops()) {
      fail_usage("--alternate-flips: the samples of data set {} are never mirrored",
                 o.data.dataset);
    }
    train.alternate_flips(true);
  }
  if (!images && (o.data.mixing.cutout > 0 || o.data.mixing.mixup > 0)) {
    fail_usage("--{} is for images, and data set {} has none",
               o.data.mixing.cutout > 0 ? "cutout" : "mixup", o.data.dataset);
  }
  if (images && o.data.mixing.cutout > std::min(sample[1], sample[2])) {
    fail_usage("--cutout {}: the images of data set {} are of {}x{}", o.data.mixing.cutout,
               o.data.dataset, sample[1], sample[2]);
  }
}

std::string augmentation_text(const Options& o) {
  std::vector<std::string> parts;
  if (o.data.crop_padding != kOwnPadding) {
    parts.push_back(
        fmt::format("crops up to {} beyond the edges", counted(o.data.crop_padding, "pixel")));
  }
  if (o.data.alternate_flips) parts.emplace_back("mirrored in turns");
  if (o.data.mixing.cutout > 0) parts.push_back(fmt::format("cutout {}", o.data.mixing.cutout));
  if (o.data.mixing.mixup > 0) parts.push_back(fmt::format("mixup {:g}", o.data.mixing.mixup));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace lockstep
