// Samples that an epoch draws (--sampling balanced and weighted), in place of each sample once.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/random.h"
#include "src/data/dataset.h"

namespace lockstep {

/// An epoch has as many entries as the data set has samples, and each entry stands for a sample.
/// Read-only after construction, so any number of threads may draw.
class DrawnSamples {
 public:
  virtual ~DrawnSamples() = default;
  /// The sample of each entry of `epoch`, which depends on nothing but the arguments and the labels
  /// or weights. The entries may be sorted by sample.
  virtual std::vector<std::uint32_t> draw(std::uint64_t seed, std::uint32_t epoch) const = 0;
  /// The memory of the object.
  virtual std::size_t bytes() const = 0;
};

/// All classes are equally frequent in each epoch. Each class has an endless sequence of passes
/// over its own samples, each pass in another random order. The entries of all epochs take the next
/// sample of one class after the other. So rare classes repeat their samples within an epoch, and
/// frequent ones need several epochs for a pass. Classes without samples have no entries.
class BalancedSamples : public DrawnSamples {
 public:
  static constexpr Purpose kStream{10};

  explicit BalancedSamples(const Dataset& data);

  std::vector<std::uint32_t> draw(std::uint64_t seed, std::uint32_t epoch) const override;
  std::size_t bytes() const override {
    return static_cast<std::size_t>(size_) * sizeof(std::uint32_t);
  }

 private:
  std::int64_t size_;
  std::vector<std::vector<std::uint32_t>> classes_;  ///< the samples of each class that has some
};

/// Samples are as frequent as their weights say. Of N samples with weights of the sum S, one of
/// weight w has N w / S entries in each epoch, rounded up or down, and that many on average.
/// Equal weights give each sample one entry. Weights are rounded to whole numbers below 2^61 / N,
/// so their sums are exact.
///
/// Source: systematic resampling, of Kitagawa, "Monte Carlo filter and smoother for non-Gaussian
/// nonlinear state space models", Journal of Computational and Graphical Statistics 5, 1996.
class WeightedSamples : public DrawnSamples {
 public:
  static constexpr Purpose kStream{11};

  /// `weights`: by sample, at least 0, and not all 0.
  explicit WeightedSamples(const std::vector<double>& weights);

  std::vector<std::uint32_t> draw(std::uint64_t seed, std::uint32_t epoch) const override;
  std::size_t bytes() const override { return weights_.size() * sizeof weights_[0]; }

 private:
  std::vector<std::int64_t> weights_;
  std::int64_t sum_ = 0;  ///< below 2^62
};

}  // namespace lockstep
