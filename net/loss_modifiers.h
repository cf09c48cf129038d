// The registry of loss modifiers: what changes the cross-entropy of a sample. Kernels include this
// file, so it is free of fmt (src/device/each.h). UpdateOptions declares the options of the list,
// and the start-up summary shows their texts.
#pragma once

#include <cstdint>

#include "src/base/host_device.h"
#include "src/base/view.h"
#include "src/data/augmentation.h"

namespace lockstep {

/// The target of a sample and the factor of its loss. As constructed they are those of the plain
/// cross-entropy of `label`. The target has the probability `share` for `label` and the rest for
/// `other`, before label smoothing.
struct LossTarget {
  std::int32_t label, other;  ///< label: the one of more weight in the sample
  float share = 1;
  float factor = 1;  ///< of loss and gradient
};

/// Whether `view` has at least `count` elements.
inline bool holds(const View& view, std::int64_t count) { return view && view.count() >= count; }

/// The option of a modifier that one number switches on; 0: off.
using LossOption = AugmentationOption;

/// The labels of mixed samples. Source: Zhang et al., "mixup: beyond empirical risk minimization",
/// 2018. The options --mixup and --cutmix belong to the loader (src/data/mixing.h).
struct MixedLabels {
  View others = {};   ///< N labels, i32; null: samples are not mixed
  View weights = {};  ///< N weights of the samples' own labels, f32; the rest is the other label's

  bool fits(std::int64_t samples, std::int64_t) const {
    return (!weights && !others) || (holds(weights, samples) && holds(others, samples));
  }
  /// The sample's own label comes first if both weights are equal.
  HOST_DEVICE void apply(std::int64_t n, LossTarget& target) const {
    const auto* shares = static_cast<const float*>(weights.data);
    const auto* labels = static_cast<const std::int32_t*>(others.data);
    const std::int32_t own = target.label;
    const float weight = shares != nullptr ? shares[n] : 1.0f;
    const bool swapped = weight < 0.5f;
    target.label = swapped ? labels[n] : own;
    target.other = swapped || shares == nullptr ? own : labels[n];
    target.share = swapped ? 1 - weight : weight;
  }
};

/// --class-weights: loss and gradient of a sample are multiplied by the weight of its label's
/// class. A mixed sample has the sum of the losses of its two labels, each times share and weight.
struct ClassWeights {
  View weights = {};  ///< a weight for each class, f32, finite and at least 0; null: none

  bool fits(std::int64_t, std::int64_t classes) const {
    return !weights || holds(weights, classes);
  }
  HOST_DEVICE void apply(std::int64_t, LossTarget& target) const {
    if (weights.data == nullptr) return;
    const auto* of = static_cast<const float*>(weights.data);
    const float own = target.share * of[target.label], rest = (1 - target.share) * of[target.other];
    target.factor = own + rest;
    if (target.factor > 0) target.share = own / target.factor;
  }
};

/// The probability that is spread evenly over all classes. The kernel reads it here: a copy in
/// LossTarget has no register left on a GPU. Source: Szegedy et al., "Rethinking the inception
/// architecture for computer vision", 2016.
struct LabelSmoothing {
  static constexpr LossOption kOption{"label-smoothing",
                                      "Label smoothing: probability spread evenly over all classes",
                                      "label smoothing", 1, "0.1"};
  float value = 0;

  bool fits(std::int64_t, std::int64_t) const { return true; }
  HOST_DEVICE void apply(std::int64_t, LossTarget&) const {}
};

template <class... Each>
struct LossModifierList : Each... {
  /// Calls f with each modifier that one number switches on.
  template <class F>
  void each_number(const F& f) {
    const auto call = [&](auto& modifier) {
      if constexpr (requires { modifier.kOption; }) f(modifier.kOption, modifier.value);
    };
    (call(static_cast<Each&>(*this)), ...);
  }
  /// Whether the memory suffices for `samples` of `classes`.
  bool fits(std::int64_t samples, std::int64_t classes) const {
    return (Each::fits(samples, classes) && ...);
  }
  HOST_DEVICE void apply(std::int64_t n, LossTarget& target) const {
    (Each::apply(n, target), ...);
  }
};

/// In this order. Another one is a trivially copyable struct as above, and one word here. As
/// constructed it changes nothing. All memory is the device's.
using LossModifiers = LossModifierList<MixedLabels, ClassWeights, LabelSmoothing>;

}  // namespace lockstep
