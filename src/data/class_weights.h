// Classes of unequal size: their numbers of samples, and weights of the loss (--class-weights).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/data/dataset.h"

namespace lockstep {

/// The samples of each class, by label.
std::vector<std::int64_t> samples_by_class(const Dataset& data);

/// For each class n / (classes * its samples), as scikit-learn's "balanced". n: all samples;
/// classes: those with samples. So the mean weight of a sample is 1. A class without samples has
/// weight 1.
std::vector<float> balanced_weights(const std::vector<std::int64_t>& samples);

/// Reads `file`: a line "class,weight" for each of the `classes`, in any order, perhaps after a
/// line of these two words. A name may be quoted as in CSV. Returns the weights by label. Throws
/// the usage Error that names the line and the fix, also if a class is missing.
std::vector<float> read_class_weights(const std::filesystem::path& file,
                                      const std::vector<std::string>& classes);

/// By label. A data set may lack names: then its labels are the names.
std::vector<std::string> all_class_names(const OpenedData& data);

/// `how`: --class-weights. Empty: no weights. "balanced": those of the training set. Else a file.
std::vector<float> class_weights(const std::string& how, const OpenedData& data);

}  // namespace lockstep
