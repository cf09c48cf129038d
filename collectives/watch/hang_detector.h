// HangDetector: finds the rank of a node that has kept the others waiting for too long, from the
// flight recorder only.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {

/// One rank is behind: a stopped one, else one that a debugger holds, else the one with the lowest
/// step. Among several it is one that does not wait for others, then the one with the oldest mark.
/// It may stay silent for as long as its phase may take. If all ranks of a node wait, the cause is
/// on another node, whose watchdog has to find it first: the limit is then ten times as long. One
/// thread at a time.
class HangDetector {
 public:
  /// `alone`: the run has one node.
  explicit HangDetector(bool alone) : alone_(alone) {}

  struct Verdict {
    int behind = 0;    ///< index of the rank
    double limit = 0;  ///< seconds of silence that were exceeded
  };
  /// Call it regularly. `elapsed`: watched seconds since the last call. `timeout`: seconds for a
  /// phase without a longer limit.
  std::optional<Verdict> judge(const FlightRecorder& flight_recorder, double timeout,
                               double elapsed);

 private:
  bool alone_;
  int behind_ = -1;           ///< index of the rank that is behind
  std::int64_t mark_ns_ = 0;  ///< of its last mark
  double silent_ = 0;         ///< watched seconds since both changed
};

}  // namespace lockstep
