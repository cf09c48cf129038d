// How often a network gave each probability to each class: integer counts, which ranks can add.
// From them follow the area under the ROC curve and the precision-recall curve of a class.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace lockstep
