// The result of an evaluation on a whole data set.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/evaluate/probability_counts.h"
#include "net/loss.h"

namespace lockstep {

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

}  // namespace lockstep
