// Options of the model and its arithmetic.
#pragma once

#include <string>

#include "src/base/option_rows.h"
#include "src/base/view.h"

namespace lockstep {

struct ModelOptions {
  std::string name;  ///< after parsing always one of models(); the default is the data set's
  Type precision = Type::f32;
  std::string init;      ///< a checkpoint whose weights the run begins with; empty: random ones
  bool sync_bn = false;  ///< batch norm uses the mean and variance of all shards
  bool as_published = false;

  /// `by_default`: the data set's model. `published`: the model that --as-published chooses; empty:
  /// there is no such option.
  void declare(OptionRows& rows, std::string_view by_default, const std::string& published);
};

}  // namespace lockstep
