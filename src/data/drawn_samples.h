// Samples that an epoch draws (--sampling balanced), in place of each sample once.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/random.h"
#include "src/data/dataset.h"

namespace lockstep {

/// An epoch has as many entries as the data set has samples, and each entry stands for a sample.
/// All classes are equally frequent in each epoch. Each class has an endless sequence of passes
/// over its own samples, each pass in another random order. The entries of all epochs take the next
/// sample of one class after the other. So rare classes repeat their samples within an epoch, and
/// frequent ones need several epochs for a pass. Classes without samples have no entries. Read-only
/// after construction, so any number of threads may draw.
class BalancedSamples {
 public:
  static constexpr Purpose kStream{10};

  explicit BalancedSamples(const Dataset& data);

  /// The sample of each entry of `epoch`. It depends on the arguments and the labels only.
  std::vector<std::uint32_t> draw(std::uint64_t seed, std::uint32_t epoch) const;
  /// The memory of the object.
  std::size_t bytes() const { return size_ * sizeof(std::uint32_t); }

 private:
  std::int64_t size_;
  std::vector<std::vector<std::uint32_t>> classes_;  ///< the samples of each class that has some
};

}  // namespace lockstep
