#include "apps/record/class_metrics.h"

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

/// The mean of what is no NaN; NaN: there is nothing.
class Mean {
 public:
  void add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double value() const {
    return count_ == 0 ? std::numeric_limits<double>::quiet_NaN() : sum_ / count_;
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

}  // namespace

std::vector<ClassCounts> class_counts(const EvaluationResult& result) {
  const auto classes = static_cast<std::size_t>(result.classes());
  std::vector<ClassCounts> counts(classes);
  for (std::size_t truth = 0; truth < classes; ++truth) {
    for (std::size_t predicted = 0; predicted < classes; ++predicted) {
      const std::int64_t cell = result.confusion[truth * classes + predicted];
      counts[truth].samples += cell;
      counts[predicted].predicted += cell;
      if (truth == predicted) counts[truth].right += cell;
    }
  }
  return counts;
}

double macro_f1(const EvaluationResult& result) {
  Mean mean;
  for (const ClassCounts& counts : class_counts(result))
    if (counts.samples + counts.predicted > 0) mean.add(counts.f1());
  return mean.value();
}

double balanced_accuracy(const EvaluationResult& result) {
  Mean mean;
  for (const ClassCounts& counts : class_counts(result))
    if (counts.samples > 0) mean.add(counts.recall());
  return mean.value();
}

double macro_auc(const EvaluationResult& result) {
  Mean mean;
  for (int c = 0; result.probabilities && c < result.classes(); ++c)
    mean.add(result.probabilities->auc(c));
  return mean.value();
}

double value_of(const std::string& measure, const EvaluationResult& result) {
  if (measure == "loss") return result.score.loss();
  if (measure == "f1") return macro_f1(result);
  if (measure == "balanced-accuracy") return balanced_accuracy(result);
  if (measure == "auc") return macro_auc(result);
  return result.score.top1_share();
}

}  // namespace lockstep
