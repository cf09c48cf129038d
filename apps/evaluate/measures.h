// The result of an evaluation on a whole data set, and the registry of measures: what an evaluation
// measures, and how lines, tables and pages show it. A new measure is a function and its row in
// measures.cc. Measures are functions of integer counts, so they are the same on any number of
// ranks.
//
// ProbabilityCounts tell how often a network gave each probability to each class. From them follow
// the area under the ROC curve and the precision-recall curve of a class.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/loss.h"
#include "src/base/table.h"

namespace lockstep {

/// A point of a precision-recall curve: the samples with at least some probability of the class.
struct CurvePoint {
  std::int64_t right = 0;  ///< that are of the class
  std::int64_t wrong = 0;  ///< that are not
};

/// Counts by class, bin and whether the sample is of the class. Bins have equal widths in the
/// logarithm of p below 1/2 and of 1 - p above it: 64 for each power of 2, down to 2^-32. So
/// probabilities near 0 and near 1 have the same relative resolution.
class ProbabilityCounts {
 public:
  static constexpr int kBins = 3972;

  /// The bin of a probability from 0 to 1. It rises with p.
  static int bin_of(double p);

  explicit ProbabilityCounts(int classes)
      : counts_(static_cast<std::size_t>(classes) * kBins * 2) {}

  /// A sample of class `label`. Ignores it if a probability is NaN.
  void add(std::span<const double> probabilities, std::int32_t label);
  /// All counts, for sums over ranks.
  std::span<std::int64_t> all() { return counts_; }

  /// The probability that a sample of the class has a higher probability of it than another
  /// sample. A pair in the same bin counts half. NaN: all samples are of the class, or none is.
  double auc(int label) const;
  /// At most `most` points, from high to low probability. The last one has all samples.
  std::vector<CurvePoint> curve(int label, int most) const;
  bool operator==(const ProbabilityCounts&) const = default;

 private:
  std::int64_t count(int label, int bin, bool right) const {
    return counts_[(static_cast<std::size_t>(label) * kBins + bin) * 2 + right];
  }

  std::vector<std::int64_t> counts_;
};

/// A sample that is taken for another class.
struct Mistake {
  std::int64_t sample = 0;  ///< its index in the data set
  std::int32_t label = 0, predicted = 0;
  double loss = 0;         ///< -log of the label's probability
  double probability = 0;  ///< of the predicted class

  bool operator==(const Mistake&) const = default;
};

/// confusion[truth * classes + predicted]: number of samples.
struct EvaluationResult {
  Score score;
  std::vector<std::int64_t> confusion;
  std::vector<Mistake> mistakes = {};  ///< on rank 0, the worst ones: find_mistakes()
  std::optional<ProbabilityCounts> probabilities = {};  ///< of all ranks: count_probabilities()

  int classes() const {
    return static_cast<int>(std::lround(std::sqrt(static_cast<double>(confusion.size()))));
  }
};

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

struct Measure {
  static constexpr std::string_view kind = "measure";
  enum Needs : std::uint8_t {
    score,         ///< sums over all samples; every line of an evaluation has the measure
    counts,        ///< of classes; a line has the measure if --best names it
    probabilities  ///< of classes; without EvaluationResult::probabilities it is NaN
  };

  std::string_view name;   ///< of --best
  std::string_view about;  ///< a noun phrase for the help of --best
  std::string_view field;  ///< in metrics.jsonl and evaluation.json
  std::string_view title;  ///< on the page, and in lines that always have the measure
  Needs needs;
  double (*value)(const EvaluationResult&);  ///< NaN: it is not known
  /// The measure is a number, and the lowest one is best. Others are shares up to 1.
  bool lower_is_better = false;
  bool chooses = true;  ///< --best may name it

  /// For tables: "21.03 %", or "1.8731".
  std::string text(double measured) const;
};

/// In the order of the fields in metrics.jsonl.
std::span<const Measure> measures();
/// For the page: a list of objects with name, field, title and lower_is_better.
nlohmann::ordered_json measures_json();

}  // namespace lockstep
