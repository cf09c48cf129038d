// What a report's file could not take yet. Included by src/report/*.cc alone.
#pragma once

#include <string>

#include "src/base/check.h"
#include "src/files/file.h"

namespace lockstep {

/// Writes `pending` and empties it. Where that fails it throws and keeps them for the next call (a
/// disk may be full for a while), up to 64 MiB.
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
