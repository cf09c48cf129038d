#include "collectives/schedule_run.h"

#include <algorithm>
#include <utility>

#include "collectives/sum.h"

namespace lockstep {
namespace {

/// Floats of the longest round that arrive to be added. MPI overwrites the place where it receives,
/// so that they arrive in staging. Each round begins with the same staging, because no message
/// outlives its round.
std::int64_t most_added(const Schedule& schedule, int rank) {
  std::int64_t most = 0;
  for (const Round& round : schedule.rounds) {
    std::int64_t added = 0;
    for (const Action& action : round) {
      if (action.verb == Verb::add && action.peer != rank) added += action.range.count;
    }
    most = std::max(most, added);
  }
  return most;
}

}  // namespace

ScheduleRun::ScheduleRun(const Comm& comm, Schedule schedule, std::size_t chunk, int tag)
    : Exchange(comm, chunk, tag),
      schedule_(std::move(schedule)),
      scratch_(schedule_.scratch),
      staging_(most_added(schedule_, comm.rank())),
      round_(schedule_.rounds.size()) {}

float* ScheduleRun::at(std::int64_t address) {
  return address < schedule_.count ? bucket_ + address
                                   : scratch_.data() + (address - schedule_.count);
}

void ScheduleRun::start(std::span<float* const> rows, float* sum) {
  expect(rows.size() == 1 && rows.front() == sum, "a schedule adds one row of each rank in place");
  bucket_ = sum;
  round_ = 0;
  // A schedule of one rank has no rounds, and its bucket is the sum already.
  if (!done()) begin_round();
}

void ScheduleRun::begin_round() {
  float* staging = staging_.data();
  // Receives before sends, so that messages arrive in their final place.
  for (const bool sends : {false, true}) {
    for (const auto& [verb, peer, range, source] : schedule_.rounds[round_]) {
      if (peer == comm_.rank() || (verb == Verb::send) != sends) continue;
      float* const place = at(range.begin);
      const bool adds = verb == Verb::add;
      post(sends, peer, adds ? staging : place, range.count * sizeof(float),
           adds ? place : nullptr);
      if (adds) staging += range.count;
    }
  }
}

void ScheduleRun::end_round() {
  for (const Action& action : schedule_.rounds[round_]) {
    if (action.peer != comm_.rank()) continue;
    if (action.verb == Verb::add) {
      add(at(action.range.begin), at(action.source), action.range.count);
    } else {
      std::copy_n(at(action.source), action.range.count, at(action.range.begin));
    }
  }
  if (++round_ < schedule_.rounds.size()) begin_round();
}

}  // namespace lockstep
