// Options of the update: how gradients become steps.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "net/loss_modifiers.h"
#include "net/optimizer.h"
#include "net/parameter_groups.h"
#include "src/base/option_rows.h"

namespace lockstep {

struct UpdateOptions {
  std::string name = "sgd";
  OptimizerOptions own;       ///< after parsing all that this optimizer declares, and no other's
  std::string class_weights;  ///< empty: none; "balanced", or a file
  LossModifiers loss;         ///< with the numbers of their options
  float clip_norm = 0;                   ///< 0: gradients are not clipped
  float weight_decay = 0;                ///< of all weights, besides their model's own
  std::vector<std::string> group_texts;  ///< --group as given
  std::vector<ParameterGroup> groups;
  float ema = 0.9999f;  ///< 0: no average is kept

  /// With the options of all optimizers.
  void declare(OptionRows& rows);
  /// After the rows are read: the chosen optimizer's options get its own defaults, and no other's
  /// remain. Throws the usage error if another optimizer's option was given.
  void finish(OptionRows& rows);

 private:
  void declare_loss(OptionRows& rows);
  void declare_own(OptionRows& rows);
};

}  // namespace lockstep
