// Measures of an evaluation that count each class the same, however many samples it has. They are
// functions of integer counts, so they are the same on any number of ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/record/evaluation_result.h"

namespace lockstep {

/// Counts of a class. A share of no samples is 0.
struct ClassCounts {
  std::int64_t samples = 0, predicted = 0, right = 0;

  double precision() const { return share(right, predicted); }
  double recall() const { return share(right, samples); }
  double f1() const { return share(2 * right, samples + predicted); }

 private:
  static double share(std::int64_t part, std::int64_t all) {
    return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
  }
};

/// By label.
std::vector<ClassCounts> class_counts(const EvaluationResult& result);

/// The mean F1 of the classes that have samples or predictions, as scikit-learn's f1_score of
/// average="macro".
double macro_f1(const EvaluationResult& result);
/// The mean recall of the classes that have samples.
double balanced_accuracy(const EvaluationResult& result);
/// The mean area under the ROC curve of each class against the rest, of the classes for which there
/// is one. NaN: there is none, or probabilities were not counted.
double macro_auc(const EvaluationResult& result);

/// The value of one of kMeasures (apps/options/run_options.h), such as "f1".
double value_of(const std::string& measure, const EvaluationResult& result);

}  // namespace lockstep
