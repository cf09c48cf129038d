// Classes of unequal size: their numbers of samples, and weights of the loss (--class-weights).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// The samples of each class, by label.
std::vector<std::int64_t> samples_by_class(const Dataset& data);

/// By label. A data set may lack names: then its labels are the names.
std::vector<std::string> all_class_names(const OpenedData& data);

/// By label. `how`: --class-weights. Empty: no weights. "balanced": n / (classes * samples of the
/// class), as scikit-learn, with the n training samples and the classes that have some; a class
/// without has weight 1. Else a CSV file with a line "class,weight" for each class, in any order,
/// perhaps after a line of these two words. Throws the usage Error that names the line and the fix,
/// also if a class is missing.
std::vector<float> class_weights(const std::string& how, const OpenedData& data);

}  // namespace lockstep
