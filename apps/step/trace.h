// The timeline of all ranks as one file: --trace.
#pragma once

#include <filesystem>
#include <string>

#include "collectives/comm/clock_offset.h"
#include "collectives/comm/comm.h"
#include "src/base/timeline.h"

namespace lockstep {

/// Throws the usage Error where no trace can be put at `path`, and where something else is there
/// than an older one. Leaves nothing there.
void require_trace_file(const std::filesystem::path& path);

/// What this rank does, and at the end what all did, with their clocks aligned to rank 0's: the
/// offsets between hosts are measured at construction and in write(), and lie on a line between.
class Trace {
 public:
  /// Spans in memory over both lanes and all ranks, and of one lane of a rank.
  static constexpr std::size_t kMostInAll = std::size_t{1} << 21, kMost = 32768, kLeast = 256;

  explicit Trace(const Comm& comm);  ///< collective

  Timeline& timeline() { return timeline_; }

  /// Collective. Rank 0 puts the last spans of all ranks into `path`, as a whole or not at all.
  /// Returns what went wrong, on rank 0; empty where nothing did.
  std::string write(const std::filesystem::path& path);

 private:
  Comm comm_, node_;
  Timeline timeline_;
  ClockOffset offset_;
  std::int64_t measured_ns_;  ///< when offset_ was, by this rank's clock
};

}  // namespace lockstep
