// Text that a report's file has no room for yet. Only for src/report/*.cc.
#pragma once

#include <string>

#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {

/// Writes `pending` and empties it. If writing fails it throws and keeps up to 64 MiB for the next
/// call, because a disk may be full for a while.
inline void write_pending(OutputFile& file, std::string& pending) {
  constexpr std::size_t kMost = 64 << 20;
  try {
    file.write(pending);
  } catch (const Error&) {
    if (pending.size() > kMost) pending.clear();
    throw;
  }
  pending.clear();
}

}  // namespace lockstep
