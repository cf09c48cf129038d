// HangDetector: who of a node's ranks has let the others wait for too long, judged by the records
// alone.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {

/// One rank is behind: one that is stopped, or else held by a debugger, else the one of the lowest
/// step; of those one that does not wait for others; of those the one that was heard of least
/// lately. It may be so, without a mark, for as long as its phase may take. Where all ranks of a
/// node wait, those of other nodes are to blame, and get ten times as long to be found out there.
/// One thread at a time.
class HangDetector {
 public:
  /// `alone`: there are no other nodes.
  explicit HangDetector(bool alone) : alone_(alone) {}

  struct Verdict {
    int behind = 0;    ///< index of the rank
    double limit = 0;  ///< seconds for which it was watched to be silent
  };
  /// To be called again and again; `elapsed`: seconds that were watched since the last call.
  /// `timeout`: seconds that a phase without a longer limit of its own may take.
  std::optional<Verdict> look(const FlightRecorder& records, double timeout, double elapsed);

 private:
  bool alone_;
  int behind_ = -1;           ///< index of the rank that is behind
  std::int64_t mark_ns_ = 0;  ///< when it was last heard of
  double silent_ = 0;         ///< seconds that were watched while both stayed the same
};

}  // namespace lockstep
