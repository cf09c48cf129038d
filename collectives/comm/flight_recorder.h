// The flight recorder: the last action of each rank of a node, in memory that all of them map, so
// that other ranks can name a rank that hangs or dies. A write is a few relaxed stores, which is
// cheap enough for every layer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/clock.h"
#include "src/base/process.h"

namespace lockstep {

/// One rank's part of the flight recorder. Its owner writes from any thread, one at a time. All
/// ranks read.
class alignas(64) RankRecorder {
 public:
  static constexpr std::size_t kPhaseLength = 64;

  /// The number of the training step that begins; negative before the first.
  void step(std::int64_t number) {
    step_.store(number, std::memory_order_relaxed);
    progress();
  }
  /// The phase that begins now ("forward", "bucket 2 of the reducer tree"; cut to 64 characters).
  /// `limit_seconds`: until the next mark; 0: the watchdog's default.
  void phase(std::string_view name, double limit_seconds = 0) { enter(name, limit_seconds, false); }
  /// The same for a phase in which this rank waits for others.
  void waiting(std::string_view name) { enter(name, 0, true); }
  /// Inside a call that returns when all ranks have made it: like waiting(), within the phase.
  void collective(bool inside) {
    collective_.store(inside, std::memory_order_relaxed);
    progress();
  }
  /// Progress within the phase.
  void progress() { mark_ns_.store(now_ns(), std::memory_order_relaxed); }
  /// This rank leaves after all have reached the end of MPI: from now on a missing process of the
  /// node is no failure.
  void goodbye() { goodbye_ = true; }
  /// The neighbour that watches this rank writes it, not the owner.
  void seen(Condition condition) { condition_.store(condition, std::memory_order_relaxed); }

  /// The last state. A phase that is written at this moment may be half old and half new. This is
  /// harmless, because such a rank moves.
  struct State {
    int rank = 0, pid = 0;
    std::uint64_t pid_space = 0;            ///< of `pid`: containers may have one each
    std::uint64_t start_time = 0;           ///< of the process (src/base/process.h)
    Condition condition = Condition::runs;  ///< as the neighbour saw it
    bool has_left = false;
    std::int64_t step = -1;
    std::string phase;
    bool waiting = false;      ///< for others
    std::int64_t mark_ns = 0;  ///< time of the last write, by the monotonic clock of the host
    double seconds_since = 0;  ///< since then
    double limit_seconds = 0;
  };
  State read() const;

 private:
  friend class FlightRecorder;
  void enter(std::string_view name, double limit_seconds, bool waiting);

  std::atomic<std::int64_t> step_, mark_ns_, limit_ns_;
  std::atomic<int> rank_, pid_;
  std::atomic<std::uint64_t> pid_space_, start_time_;
  std::atomic<Condition> condition_;
  std::atomic<bool> waiting_, collective_, goodbye_;
  std::array<std::atomic<char>, kPhaseLength + 1> phase_;  ///< ends with 0
};

/// The parts of all ranks of a node, and the flag of the first failure.
class FlightRecorder {
 public:
  static std::size_t bytes(int ranks);

  /// Enters this process as number `index` of `size`. `memory`: FlightRecorder::bytes(size),
  /// zeroed, shared by all ranks of the node, outlives this.
  FlightRecorder(void* memory, int index, int size, int rank);

  int index() const { return index_; }
  int size() const { return size_; }
  RankRecorder& mine() { return memory_->ranks[index_]; }
  const RankRecorder& operator[](int index) const { return memory_->ranks[index]; }
  RankRecorder& operator[](int index) { return memory_->ranks[index]; }

  /// True for the first rank of the node that calls it: only that rank prints why the run ends.
  bool first_failure() { return !memory_->failing.exchange(true); }
  /// A rank has called first_failure().
  bool failing() const { return memory_->failing; }

  /// Another host does not answer the heartbeat of this node, so that a hang may be a fault of the
  /// network.
  void suspect_network(bool suspected) { memory_->network = suspected; }
  bool suspects_network() const { return memory_->network; }

  /// For share_memory_claims().
  std::atomic<std::uint64_t>& memory_claims() { return memory_->claims; }

  /// A rank of the node has called goodbye().
  bool anyone_has_left() const;

  /// The run can be resumed from a checkpoint, which the line about its end then mentions.
  void saved() { memory_->saved = true; }
  bool has_saved() const { return memory_->saved; }

 private:
  struct Memory {
    alignas(64) std::atomic<bool> failing, saved, network;
    std::atomic<std::uint64_t> claims;
    RankRecorder ranks[1];  // one per rank
  };
  Memory* memory_;
  int index_, size_;
};

}  // namespace lockstep
