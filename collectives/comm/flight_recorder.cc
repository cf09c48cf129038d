#include "collectives/comm/flight_recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace lockstep {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "records are shared between processes");

void RankRecorder::enter(std::string_view name, double limit_seconds, bool waiting) {
  const std::size_t length = std::min(name.size(), kPhaseLength);
  for (std::size_t i = 0; i < length; ++i) phase_[i].store(name[i], kRelaxed);
  phase_[length].store('\0', kRelaxed);
  waiting_.store(waiting, kRelaxed);
  limit_ns_.store(static_cast<std::int64_t>(limit_seconds * 1e9), kRelaxed);
  progress();
}

RankRecorder::State RankRecorder::read() const {
  State state;
  state.rank = rank_;
  state.pid = pid_;
  state.pid_space = pid_space_;
  state.has_left = goodbye_;
  state.step = step_;
  // Ends also in the middle of a write: no writer changes the last element, which is 0.
  for (std::size_t i = 0; const char letter = phase_[i]; ++i) state.phase += letter;
  state.start_time = start_time_;
  state.condition = condition_;
  state.waiting = waiting_ || collective_;
  state.mark_ns = mark_ns_;
  state.seconds_since = static_cast<double>(now_ns() - state.mark_ns) * 1e-9;
  state.limit_seconds = static_cast<double>(limit_ns_) * 1e-9;
  return state;
}

std::size_t FlightRecorder::bytes(int ranks) {
  return sizeof(Memory) + static_cast<std::size_t>(ranks) * sizeof(RankRecorder);
}

FlightRecorder::FlightRecorder(void* memory, int index, int size, int rank)
    : memory_(static_cast<Memory*>(memory)), index_(index), size_(size) {
  mine().rank_ = rank;
  mine().pid_ = static_cast<int>(getpid());
  struct stat space = {};
  stat("/proc/self/ns/pid", &space);  // without such a file 0 on all ranks
  mine().pid_space_ = space.st_ino;
  mine().start_time_ = start_time_of(getpid());
  mine().seen(Condition::runs);
  mine().step(-1);
  mine().phase("start-up");
}

bool FlightRecorder::anyone_has_left() const {
  return std::any_of(memory_->ranks, memory_->ranks + size_,
                     [](const RankRecorder& rank) { return rank.read().has_left; });
}

}  // namespace lockstep
