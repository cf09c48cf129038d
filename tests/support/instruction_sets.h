// The instruction sets of Lockstep's kernels, for tests that run each of them.
#pragma once

#include <string_view>
#include <vector>

#include "src/base/table.h"
#include "src/device/cpu/instruction_set.h"

namespace lockstep {

inline const InstructionSet& set_called(std::string_view name) {
  return find(instruction_sets(), name);
}

/// The sets with kernels of their own.
inline const std::vector<std::string_view> kSets = [] {
  std::vector<std::string_view> names;
  for (const InstructionSet& set : instruction_sets().subspan(1))
    if (names.empty() || set.kernels != set_called(names.back()).kernels) names.push_back(set.name);
  return names;
}();

/// Whether this processor runs the kernels of `set`.
inline bool processor_has(std::string_view set) { return set_called(set).runs_here(); }

}  // namespace lockstep
