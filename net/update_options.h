// Options of the update: how gradients become steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/loss_scale.h"
#include "net/optimizer.h"
#include "net/parameter_groups.h"
#include "src/base/option_rows.h"
#include "src/base/view.h"

namespace lockstep {

struct UpdateOptions {
  std::string name = "sgd";
  OptimizerOptions own;       ///< after parsing all that this optimizer declares, and no other's
  std::string class_weights;  ///< empty: none; "balanced", or a file
  std::string loss = "cross_entropy";  ///< or "focal"
  float focal_gamma = 2;               ///< of "focal"
  float label_smoothing = 0;
  float clip_norm = 0;                   ///< 0: gradients are not clipped
  std::string loss_scale = "auto";       ///< auto, none, dynamic, dynamic:FIRST:STEPS, or a number
  float weight_decay = 0;                ///< of all weights, besides their model's own
  std::vector<std::string> group_texts;  ///< --group as given
  std::vector<ParameterGroup> groups;
  float ema = 0.9999f;  ///< 0: no average is kept

  /// With the options of all optimizers.
  void declare(OptionRows& rows);
  /// After the rows are read: the chosen optimizer's options get its own defaults, and no other's
  /// remain. Throws the usage error if another optimizer's option was given, or if options do not
  /// fit together.
  void finish(OptionRows& rows);
  /// The meaning of loss_scale with activations of `precision`.
  LossScaling loss_scaling(Type precision) const;

 private:
  void declare_loss(OptionRows& rows);
  void declare_own(OptionRows& rows);
};

}  // namespace lockstep
