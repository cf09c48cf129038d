// The agreement between verify_run and a training program about the steps of a replay.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>

#include "src/base/text.h"

namespace lockstep {

/// The variable of the environment, such as "2,5,9", the same on all ranks. The run saves a
/// checkpoint after each of these steps, and stops after the last.
inline constexpr const char* kReplayVariable = "LOCKSTEP_REPLAY";
/// The variable with the work that a replay leaves undone after its last step, because the run did:
/// "evaluation", or "test" if it only leaves the test set; empty: none.
inline constexpr const char* kLeavesVariable = "LOCKSTEP_REPLAY_LEAVES";

/// Empty: this run is no replay.
inline std::set<std::int64_t> replay_steps() {
  std::set<std::int64_t> steps;
  const char* const list = std::getenv(kReplayVariable);
  for (const std::string& step : split(list != nullptr ? list : "", ','))
    if (!step.empty()) steps.insert(std::strtoll(step.c_str(), nullptr, 10));
  return steps;
}

/// The value of kLeavesVariable.
inline std::string replay_leaves() {
  const char* const what = std::getenv(kLeavesVariable);
  return what != nullptr ? what : "";
}

}  // namespace lockstep
