// The timeline of all ranks as one file: --trace.
#pragma once

#include <filesystem>
#include <string>

#include "collectives/comm/comm.h"
#include "src/base/timeline.h"

namespace lockstep {

/// Throws the usage Error if no trace can be written to `path`, or if it exists and is no trace.
/// Creates nothing.
void require_trace_file(const std::filesystem::path& path);

/// Records this rank's timeline, and writes those of all ranks, with clocks aligned to rank 0's.
/// The offsets between hosts are measured at construction and in write(), and interpolated.
class Trace {
 public:
  explicit Trace(const Comm& comm);  ///< collective

  Timeline& timeline() { return timeline_; }

  /// Collective. Rank 0 writes the last spans of all ranks to `path`, as a whole or not at all.
  /// Returns the error on rank 0; empty: there was none.
  std::string write(const std::filesystem::path& path);

 private:
  Comm comm_, node_;
  Timeline timeline_;
  ClockOffset offset_;
  std::int64_t measured_ns_;  ///< the time of offset_, by this rank's clock
};

}  // namespace lockstep
