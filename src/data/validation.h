// The validation set: a part of the training set, which training does not see.
#pragma once

#include "src/data/dataset.h"

namespace lockstep {

/// Opens the sets of `entry`. If the data set has not made a validation set itself, this takes
/// source.validation of its training samples, whose names are their indices. The validation samples are as in an
/// evaluation. Notes classes that may surprise. Throws Error if a part is empty.
OpenedData open_data(const DatasetEntry& entry, const DataSource& source);

}  // namespace lockstep
