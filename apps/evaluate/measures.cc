#include "apps/evaluate/measures.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using enum Measure::Needs;
using Result = EvaluationResult;

// The upper bits of a float are its exponent and the begin of its mantissa. As an integer they grow
// with the logarithm of the number, without its cost. They are the same on every processor.
constexpr int kBitsLeftOut = 17;  // of a float's mantissa: 6 of 23 bits remain
constexpr int cell_of(float p) {
  return static_cast<int>(std::bit_cast<std::uint32_t>(p) >> kBitsLeftOut);
}
constexpr int kFirst = cell_of(0x1p-32f) - 1, kHalf = cell_of(0.5f) - kFirst + 1;
static_assert(2 * kHalf == ProbabilityCounts::kBins);

/// The mean of value(class) over the classes for which it is no NaN; NaN: there is no such class.
double mean(const Result& result, const auto& value) {
  double sum = 0, count = 0;
  for (int c = 0; c < result.classes(); ++c) {
    const double one = value(c);
    if (std::isnan(one)) continue;
    sum += one;
    ++count;
  }
  return sum / count;
}

/// The mean over the classes that have samples or predictions, as scikit-learn's f1_score of
/// average="macro".
double macro_f1(const Result& result) {
  const std::vector<ClassCounts> counts = class_counts(result);
  return mean(result, [&](int c) {
    return counts[c].samples + counts[c].predicted > 0 ? counts[c].f1() : NAN;
  });
}

/// The mean recall of the classes that have samples.
double balanced_accuracy(const Result& result) {
  const std::vector<ClassCounts> counts = class_counts(result);
  return mean(result, [&](int c) { return counts[c].samples > 0 ? counts[c].recall() : NAN; });
}

/// The mean over the classes that have both samples and others to compare them with.
double macro_auc(const Result& result) {
  return mean(result,
              [&](int c) { return result.probabilities ? result.probabilities->auc(c) : NAN; });
}

constexpr Measure kMeasures[] = {
    {"accuracy", "the share of right predictions", "top1", "top-1", score,
     [](const Result& result) { return result.score.top1_share(); }},
    {"top5", "the share of samples whose class is among the five most probable", "top5", "top-5",
     score, [](const Result& result) { return result.score.top5_share(); },
     /*lower_is_better=*/false, /*chooses=*/false},
    {"loss", "the mean cross-entropy", "loss", "loss", score,
     [](const Result& result) { return result.score.loss(); }, /*lower_is_better=*/true},
    {"f1", "the mean F1 of the classes", "f1", "mean F1", counts, macro_f1},
    {"balanced-accuracy", "the mean recall of the classes", "balanced_accuracy",
     "balanced accuracy", counts, balanced_accuracy},
    {"auc", "the mean area under the ROC curve of each class against the rest", "auc", "mean AUC",
     probabilities, macro_auc},
};

}  // namespace

int ProbabilityCounts::bin_of(double p) {
  // Floats near 1 are too coarse. So above 1/2 the bin is that of 1 - p, from the other end.
  const auto lower = [](double share) {
    return std::max(cell_of(static_cast<float>(share)) - kFirst, 0);
  };
  return p <= 0.5 ? lower(p) : kBins - 1 - lower(1 - p);
}

void ProbabilityCounts::add(std::span<const double> probabilities, std::int32_t label) {
  for (const double p : probabilities)
    if (std::isnan(p)) return;
  for (std::size_t c = 0; c < probabilities.size(); ++c) {
    const bool right = static_cast<std::int32_t>(c) == label;
    ++counts_[(c * kBins + bin_of(probabilities[c])) * 2 + right];
  }
}

double ProbabilityCounts::auc(int label) const {
  // The Mann-Whitney statistic. Bins rise with the probability, so `wrong` has the samples of all
  // lower bins.
  double pairs = 0, right = 0, wrong = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    const auto own = static_cast<double>(count(label, bin, true)),
               other = static_cast<double>(count(label, bin, false));
    pairs += own * (wrong + other / 2);
    right += own;
    wrong += other;
  }
  if (right == 0 || wrong == 0) return NAN;
  return pairs / (right * wrong);
}

std::vector<CurvePoint> ProbabilityCounts::curve(int label, int most) const {
  std::int64_t right = 0;
  for (int bin = 0; bin < kBins; ++bin) right += count(label, bin, true);
  std::vector<CurvePoint> points;
  CurvePoint now;
  std::int64_t part = 0;  // a point for each equal part of the recall
  for (int bin = kBins - 1; bin >= 0; --bin) {
    now.right += count(label, bin, true);
    now.wrong += count(label, bin, false);
    const std::int64_t reached = right > 0 ? now.right * (most - 1) / right : 0;
    if (reached > part) points.push_back(now);
    part = reached;
  }
  if (points.empty() || points.back().right + points.back().wrong < now.right + now.wrong)
    points.push_back(now);
  return points;
}

std::vector<ClassCounts> class_counts(const EvaluationResult& result) {
  std::vector<ClassCounts> counts(result.classes());
  for (std::size_t i = 0; i < result.confusion.size(); ++i) {
    const std::size_t truth = i / counts.size(), predicted = i % counts.size();
    const std::int64_t cell = result.confusion[i];
    counts[truth].samples += cell;
    counts[predicted].predicted += cell;
    if (truth == predicted) counts[truth].right += cell;
  }
  return counts;
}

std::string Measure::text(double measured) const {
  if (!lower_is_better) return fmt::format("{:.2f} %", 100 * measured);
  return measured < 1e6 ? fmt::format("{:.4f}", measured) : fmt::format("{:.4g}", measured);
}

std::span<const Measure> measures() { return kMeasures; }

nlohmann::ordered_json measures_json() {
  nlohmann::ordered_json list;
  for (const Measure& measure : kMeasures)
    list.push_back({{"name", measure.name},
                    {"field", measure.field},
                    {"title", measure.title},
                    {"lower_is_better", measure.lower_is_better}});
  return list;
}

}  // namespace lockstep
