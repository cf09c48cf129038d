// What a run asks of some parameters, by their names: another share of the learning rate, another
// decay.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/parameters.h"

namespace lockstep {

struct ParameterGroup {
  /// Of names: * is any text, also one with a slash, ? any letter (fnmatch).
  std::string pattern;
  /// Times the learning rate; 0: the parameters stay as they are.
  float rate = 1;
  /// In place of the model's own and the run's.
  std::optional<float> decay;
  /// Above 0: the learning rate is that of a run of so many epochs, after which the parameters stay
  /// as they are.
  double epochs = 0;
};

/// Reads "PATTERN:lr=0.1,weight-decay=0". Throws the usage Error.
ParameterGroup parse_group(const std::string& text);

/// The first whose pattern is that of `name`; null: none.
const ParameterGroup* group_of(std::string_view name, std::span<const ParameterGroup> groups);

/// Gives each trained parameter of `layout` the word of the first group whose pattern is that of
/// its name. Throws the usage Error, with the names that there are, where a group is nobody's.
void apply_groups(std::span<const ParameterGroup> groups, Layout& layout);

}  // namespace lockstep
