// Options of checkpoints.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/option_rows.h"

namespace lockstep {

/// When to write a checkpoint: every `steps` steps or every `seconds` seconds, whichever is set;
/// neither: only at the end.
struct CheckpointInterval {
  std::int64_t steps = 0;
  double seconds = 0;

  bool operator==(const CheckpointInterval&) const = default;
};

struct CheckpointOptions {
  std::string dir;  ///< empty: none
  CheckpointInterval every{0, 600};
  int keep = 3;
  std::string resume = "auto";  ///< auto, never, or a file

  void declare(OptionRows& rows);
};

}  // namespace lockstep
