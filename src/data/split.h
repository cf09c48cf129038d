// The division of training samples into those for training and those for validation.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Which training samples are validation samples: a share of each class, or one of several folds.
struct Split {
  double share = 0;        ///< of the samples of each class; 0: none, or those of a fold
  std::uint64_t seed = 0;  ///< another one selects other samples
  int fold = 0, folds = 0;  ///< the fold number 1 .. folds; 0: `share` decides

  Split() = default;
  Split(double share) : share(share) {}  // NOLINT: a share is a split

  bool any() const { return share > 0 || folds > 0; }
  /// The options: "--validation 0.1" or "--fold 2/5".
  std::string text() const;
  /// "2/5"; empty: there is no fold.
  std::string fold_text() const;
  /// Reads fold_text(). Throws the usage Error.
  void read_fold(const std::string& text);
  bool operator==(const Split&) const = default;
};

/// A number from 0 to 1 that follows from a name and a seed.
double number_of(const std::string& name, std::uint64_t seed = 0);

/// For each sample whether it is a validation sample. `labels`: of all samples; name(i): of sample
/// i, which may be its index. Samples of a class are sorted by number_of(). The first ones, or every
/// split.folds-th, are for validation, so each class has its share to within one sample. A class
/// keeps a training sample unless the share is 1. New samples of a class leave a share as it is but
/// for one sample or two. The result depends on nothing else.
std::vector<bool> held_out(const Split& split, std::span<const std::int32_t> labels,
                           const std::function<std::string(std::int64_t)>& name);

}  // namespace lockstep
