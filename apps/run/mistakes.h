// The samples of an evaluation that the network gets wrong with the highest loss.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/comm/comm.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

/// A sample that is taken for another class.
struct Mistake {
  std::int64_t sample = 0;  ///< its index in the data set
  std::int32_t label = 0, predicted = 0;
  double loss = 0;         ///< -log of the label's probability
  double probability = 0;  ///< of the predicted class

  bool operator==(const Mistake&) const = default;
};

/// The `most` worst ones, by loss, then by sample. They are the same on any number of ranks,
/// because logits are.
class WorstMistakes {
 public:
  explicit WorstMistakes(std::size_t most) : most_(most) {}

  void clear() { worst_.clear(); }
  /// `logits`: rows of samples first, first + 1, ... of `data`, in memory of the host. Rows that
  /// are not finite are left out.
  void look(const Dataset& data, std::int64_t first, View logits);
  /// Collective. Those of all ranks on rank 0; none elsewhere.
  std::vector<Mistake> of_all(const Comm& comm) const;

 private:
  void add(const Mistake& mistake);

  std::size_t most_;
  std::vector<Mistake> worst_;  ///< sorted
};

}  // namespace lockstep
