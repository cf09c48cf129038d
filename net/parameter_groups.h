// Groups of parameters by name (--group), with a learning rate and a decay of their own.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/parameters.h"

namespace lockstep {

struct ParameterGroup {
  /// A pattern of names (fnmatch): * is any text, also with a slash; ? is any letter.
  std::string pattern;
  /// Factor of the learning rate; 0: frozen.
  float rate = 1;
  /// Replaces the decay of the model and of the run.
  std::optional<float> decay;
  /// If above 0, the learning rate is that of a run of so many epochs. Then the parameters freeze.
  double epochs = 0;
};

/// Reads "PATTERN:lr=0.1,weight-decay=0". Throws the usage Error.
ParameterGroup parse_group(const std::string& text);

/// The first group whose pattern matches `name`; null: none does.
const ParameterGroup* group_of(const std::string& name, std::span<const ParameterGroup> groups);

/// Applies to each trained parameter of `layout` the first group whose pattern matches its name.
/// Throws the usage Error, with the names of all parameters, if a group applies to none.
void apply_groups(std::span<const ParameterGroup> groups, Layout& layout);

}  // namespace lockstep
