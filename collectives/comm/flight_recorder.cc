#include "collectives/comm/flight_recorder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

static_assert(std::atomic<std::uint64_t>::is_always_lock_free,
              "records are shared between processes");

void RankRecorder::enter(std::string_view name, double limit_seconds, bool waiting) {
  char text[kPhaseLength] = "";
  std::memcpy(text, name.data(), std::min(name.size(), kPhaseLength));
  for (std::size_t i = 0; i < phase_.size(); ++i) {
    std::uint64_t word;
    std::memcpy(&word, text + i * sizeof word, sizeof word);
    phase_[i].store(word, kRelaxed);
  }
  waiting_.store(waiting, kRelaxed);
  limit_ns_.store(static_cast<std::int64_t>(limit_seconds * 1e9), kRelaxed);
  progress();
}

RankRecorder::State RankRecorder::read() const {
  char text[kPhaseLength + 1] = "";
  for (std::size_t i = 0; i < phase_.size(); ++i) {
    const std::uint64_t word = phase_[i].load(kRelaxed);
    std::memcpy(text + i * sizeof word, &word, sizeof word);
  }
  State state;
  state.rank = rank_.load(kRelaxed);
  state.pid = pid_.load(kRelaxed);
  state.pid_space = pid_space_.load(kRelaxed);
  state.has_left = goodbye_.load(std::memory_order_acquire);
  state.step = step_.load(kRelaxed);
  state.phase = text;
  state.start_time = start_time_.load(kRelaxed);
  state.condition = condition_.load(kRelaxed);
  state.waiting = waiting_.load(kRelaxed) || collective_.load(kRelaxed);
  state.mark_ns = mark_ns_.load(kRelaxed);
  state.seconds_since = static_cast<double>(now_ns() - state.mark_ns) * 1e-9;
  state.limit_seconds = static_cast<double>(limit_ns_.load(kRelaxed)) * 1e-9;
  return state;
}

std::size_t FlightRecorder::bytes(int ranks) {
  return sizeof(Memory) + static_cast<std::size_t>(ranks) * sizeof(RankRecorder);
}

FlightRecorder::FlightRecorder(void* memory, int index, int size, int rank)
    : memory_(static_cast<Memory*>(memory)), index_(index), size_(size) {
  mine().rank_.store(rank, kRelaxed);
  mine().pid_.store(static_cast<int>(getpid()), kRelaxed);
  struct stat space = {};
  stat("/proc/self/ns/pid", &space);  // without such a file 0 on all ranks
  mine().pid_space_.store(space.st_ino, kRelaxed);
  mine().start_time_.store(start_time_of(getpid()), kRelaxed);
  mine().seen(Condition::runs);
  mine().step(-1);
  mine().phase("start-up");
}

bool FlightRecorder::anyone_has_left() const {
  return std::any_of(memory_->ranks, memory_->ranks + size_,
                     [](const RankRecorder& rank) { return rank.read().has_left; });
}

}  // namespace lockstep
