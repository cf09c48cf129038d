// A model's layers and their parameters as the table of Keras' model.summary().
#pragma once

#include <string>

#include "net/model.h"

namespace lockstep {

/// The table for samples of shape `sample`. Throws Error if they do not fit the model.
std::string model_table(const ModelEntry& entry, Shape sample, int classes);

}  // namespace lockstep
