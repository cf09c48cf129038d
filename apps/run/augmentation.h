// What a run asks of its training images besides what their set does to them by itself.
#pragma once

#include <string>

#include "apps/run/options.h"
#include "src/data/dataset.h"

namespace lockstep {

/// Throws a usage Error where the samples of `train` cannot be treated so.
void set_augmentation(const Options& options, Dataset& train);

/// "crops up to 4 pixels beyond the edges, cutout 8, mixup 0.2"; empty where nothing is asked.
std::string augmentation_text(const Options& options);

}  // namespace lockstep
