// The flight recorder: what each rank of a node last did, in memory that all of them see, so that a
// rank that hangs or dies can be named by those that wait for it. Written with a few relaxed
// stores: cheap enough for every layer.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/process.h"

namespace lockstep {

/// One rank's record. Its owner writes from any of its threads, one at a time; everybody reads.
class alignas(64) Record {
 public:
  static constexpr std::size_t kPhaseLength = 64;

  /// The number of the training step that begins; negative before the first.
  void step(std::int64_t number);
  /// What begins now ("forward", "bucket 2 of the reducer tree"; cut to 64 characters). It may take
  /// `limit_seconds` until the next mark; 0 means the watchdog's usual limit.
  void phase(std::string_view name, double limit_seconds = 0);
  /// The same for a phase in which this rank waits for others: while one of them does not, its
  /// silence is their fault.
  void waiting(std::string_view name, double limit_seconds = 0);
  /// Inside of a call that returns when all ranks have made it (Comm's methods say so themselves):
  /// as waiting(), within the phase.
  void collective(bool inside);
  /// Something has moved within the phase.
  void progress();
  /// This rank leaves, and all have come to the end of MPI: its silence and its absence mean
  /// nothing from now on, nor does the absence of others.
  void goodbye();
  /// Written by the neighbour that watches this rank, not by its owner.
  void seen(Condition condition);

  /// What was written last. A phase that is being written in this moment may be half old, half new:
  /// such a rank is moving, and nobody will ask for its name.
  struct State {
    int rank = 0, pid = 0;
    std::uint64_t pid_space = 0;   ///< pid means the same process to those with the same space
    std::uint64_t start_time = 0;  ///< of the process (src/base/process.h)
    Condition condition = Condition::runs;  ///< as its neighbour saw it last
    bool said_goodbye = false;
    std::int64_t step = -1;
    std::string phase;
    bool waiting = false;      ///< for others
    std::int64_t mark_ns = 0;  ///< when it was last heard of, by the monotonic clock of the host
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
  std::array<std::atomic<std::uint64_t>, kPhaseLength / sizeof(std::uint64_t)> phase_;
};

/// The records of all ranks of a node, and the flag of the first failure.
class FlightRecorder {
 public:
  static std::size_t bytes(int ranks);

  /// `memory`: FlightRecorder::bytes(size), zeroed, seen by all ranks of the node, outlives this.
  /// Enters this process as number `index` of `size`.
  FlightRecorder(void* memory, int index, int size, int rank);

  int index() const { return index_; }
  int size() const { return size_; }
  Record& mine();
  const Record& operator[](int index) const;
  Record& operator[](int index);

  /// True for the first rank of the node that asks, once per run: it alone explains to the user why
  /// all end.
  bool first_failure();
  /// Somebody has asked first_failure().
  bool failing() const;

  /// Another host does not answer the heartbeat of this node: what looks like a rank's fault may be
  /// the network's.
  void suspect_network(bool suspected);
  bool suspects_network() const;

  /// A rank of the node has said goodbye.
  bool anyone_has_left() const;

  /// There is a checkpoint to go on from: what is said of an end may depend on it.
  void saved();
  bool has_saved() const;

 private:
  struct Memory;
  Memory* memory_;
  int index_, size_;
};

}  // namespace lockstep
