// The validation set: a part of the training set, which training does not see.
#pragma once

#include <string>

#include "src/data/dataset.h"

namespace lockstep {

/// A number from 0 to 1 that follows from a name. A training sample belongs to the validation set
/// if the number of its index or file name is below DataSource::validation. So the division does
/// not depend on ranks, on the seed, or on other samples.
double number_of(const std::string& name);

/// Opens the sets of `entry`. If the data set has not made a validation set itself, this takes
/// source.validation of its training samples by their indices. The validation samples are as in an
/// evaluation. Notes classes that may surprise. Throws Error if a part is empty.
OpenedData open_data(const DatasetEntry& entry, const DataSource& source);

}  // namespace lockstep
