// The agreement between verify_run and a training program about the steps of a replay.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <set>

#include "src/base/text.h"

namespace lockstep {

/// The variable of the environment, such as "2,5,9", the same on all ranks. The run saves a
/// checkpoint after each of these steps, and stops after the last.
inline constexpr const char* kReplayVariable = "LOCKSTEP_REPLAY";

/// Empty: this run is no replay.
inline std::set<std::int64_t> replay_steps() {
  std::set<std::int64_t> steps;
  const char* const list = std::getenv(kReplayVariable);
  for (const std::string& step : split(list != nullptr ? list : "", ','))
    if (!step.empty()) steps.insert(std::strtoll(step.c_str(), nullptr, 10));
  return steps;
}

}  // namespace lockstep
