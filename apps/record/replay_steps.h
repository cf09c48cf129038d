// The agreement between verify_run and a training program about the steps of a replay.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "src/base/text.h"

namespace lockstep {

/// The variable of the environment, such as "FOLDER:2,5,9", the same on all ranks. The run in this
/// folder saves a checkpoint after each of these steps, and stops after the last. Others ignore it.
inline constexpr const char* kReplayVariable = "LOCKSTEP_REPLAY";
/// The variable with the work that a replay leaves undone after its last step, because the run did:
/// "evaluation", or "test" if it only leaves the test set; empty: none.
inline constexpr const char* kLeavesVariable = "LOCKSTEP_REPLAY_LEAVES";

/// Those of the run in `folder`. Empty: it is no replay.
inline std::set<std::int64_t> replay_steps(const std::string& folder) {
  std::set<std::int64_t> steps;
  const char* const variable = std::getenv(kReplayVariable);
  const std::string text = variable != nullptr ? variable : "";
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos || text.substr(0, colon) != folder) return steps;
  for (const std::string& step : split(text.substr(colon + 1), ','))
    steps.insert(std::strtoll(step.c_str(), nullptr, 10));
  return steps;
}

/// The value of kLeavesVariable.
inline std::string replay_leaves() {
  const char* const what = std::getenv(kLeavesVariable);
  return what != nullptr ? what : "";
}

}  // namespace lockstep
