#include "collectives/schedule_run.h"

#include <algorithm>
#include <utility>

#include "collectives/sum.h"

namespace lockstep {
namespace {

template <class Visit>
void for_each_chunk(Range range, std::int64_t chunk, Visit visit) {
  for (std::int64_t begin = range.begin; begin < range.end(); begin += chunk) {
    visit(Range{begin, std::min(chunk, range.end() - begin)});
  }
}

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
    : comm_(comm),
      schedule_(std::move(schedule)),
      chunk_(static_cast<std::int64_t>(chunk / sizeof(float))),
      tag_(tag),
      round_(schedule_.rounds.size()) {
  scratch_.resize(schedule_.scratch);
  staging_.resize(most_added(schedule_, comm.rank()));
}

float* ScheduleRun::at(std::int64_t address) {
  return address < schedule_.count ? bucket_ + address
                                   : scratch_.data() + (address - schedule_.count);
}

void ScheduleRun::start(std::span<float* const> rows, float* sum) {
  expect(rows.size() == 1 && rows.front() == sum, "a schedule adds one row of each rank in place");
  bucket_ = sum;
  round_ = 0;
  if (!done()) begin_round();
}

void ScheduleRun::begin_round() {
  pending_.clear();
  additions_.clear();
  const Round& round = schedule_.rounds[round_];
  float* staging = staging_.data();
  const auto post = [&](const Action& action, Range chunk) {
    MPI_Request& request = pending_.emplace_back();
    Addition& addition = additions_.emplace_back();
    float* place = at(chunk.begin);
    const int count = static_cast<int>(chunk.count);
    if (action.verb == Verb::send) {
      check(MPI_Isend(place, count, MPI_FLOAT, action.peer, tag_, raw(comm_), &request));
      return;
    }
    if (action.verb == Verb::add) {
      addition = {place, staging, chunk.count};
      place = staging;
      staging += chunk.count;
    }
    check(MPI_Irecv(place, count, MPI_FLOAT, action.peer, tag_, raw(comm_), &request));
  };
  // Receives before sends, so that messages arrive in their final place.
  for (const bool sends : {false, true}) {
    for (const Action& action : round) {
      if (action.peer == comm_.rank() || (action.verb == Verb::send) != sends) continue;
      for_each_chunk(action.range, chunk_, [&](Range chunk) { post(action, chunk); });
    }
  }
  left_ = pending_.size();
}

bool ScheduleRun::advance(bool wait) {
  while (!done()) {
    if (left_ > 0) {
      completed_.resize(pending_.size());
      int count = 0;
      const int messages = static_cast<int>(pending_.size());
      if (wait) {
        check(MPI_Waitany(messages, pending_.data(), completed_.data(), MPI_STATUS_IGNORE));
        count = 1;
      } else {
        check(MPI_Testsome(messages, pending_.data(), &count, completed_.data(),
                           MPI_STATUSES_IGNORE));
      }
      for (int i = 0; i < count; ++i) {
        const auto message = static_cast<std::size_t>(completed_[static_cast<std::size_t>(i)]);
        const Addition& addition = additions_[message];
        add(addition.to, addition.from, addition.count);
      }
      left_ -= static_cast<std::size_t>(count);
      if (left_ > 0) return true;
    }
    end_round();
  }
  return false;
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
