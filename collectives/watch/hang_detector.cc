#include "collectives/watch/hang_detector.h"

#include <algorithm>
#include <tuple>

namespace lockstep {
namespace {

constexpr double kOtherNodes = 10;  ///< factor of the limit if the cause is on another node

/// The rank with the lowest value is behind.
auto blame(const RankRecorder::State& state) {
  return std::make_tuple(state.condition, state.step, state.waiting, state.mark_ns);
}

}  // namespace

std::optional<HangDetector::Verdict> HangDetector::judge(const FlightRecorder& flight_recorder,
                                                         double timeout, double elapsed) {
  int behind = -1;
  RankRecorder::State least;
  for (int i = 0; i < flight_recorder.size(); ++i) {
    const RankRecorder::State state = flight_recorder[i].read();
    if (state.has_left) continue;
    if (behind >= 0 && blame(state) >= blame(least)) continue;
    behind = i;
    least = state;
  }
  if (behind < 0) return std::nullopt;
  const bool same = behind == behind_ && least.mark_ns == mark_ns_;
  silent_ = same ? silent_ + elapsed : 0;
  behind_ = behind;
  mark_ns_ = least.mark_ns;
  double limit = std::max(least.limit_seconds, timeout);
  if (least.waiting && least.condition == Condition::runs && !alone_) limit *= kOtherNodes;
  if (silent_ <= limit) return std::nullopt;
  return Verdict{behind, limit};
}

}  // namespace lockstep
