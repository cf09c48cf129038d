// Run: carries out one schedule over MPI messages, without a thread and without ever blocking.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/schedule.h"

namespace lockstep {

/// A schedule that is carried out once per step on the same bucket. All memory is taken at
/// construction. Several Runs with different tags may be under way on one communicator. One thread
/// at a time. MPI failures throw Error. Destroyed under way only by an exception that ends the
/// process.
class Run {
 public:
  /// `tag`: the same on all ranks, used by no other Run of `comm`.
  Run(const Comm& comm, Schedule schedule, int tag);
  /// Begins to sum `bucket` (schedule.count floats), which belongs to the Run until it is done.
  void start(float* bucket);
  /// Moves on as far as possible now; `wait`: until one more message has come through at least.
  /// Returns whether anything is left to do.
  bool advance(bool wait = false);
  bool done() const { return round_ == schedule_.rounds.size(); }
  /// Of the memory besides the bucket.
  std::size_t bytes() const { return (scratch_.size() + staging_.size()) * sizeof(float); }

 private:
  /// What to add when a message has arrived; nothing (count 0) for one that overwrites and for one
  /// that is sent.
  struct Addition {
    float* to = nullptr;
    const float* from = nullptr;
    std::int64_t count = 0;
  };

  float* at(std::int64_t address);
  void begin_round();
  void end_round();

  Comm comm_;
  Schedule schedule_;
  int tag_;
  float* bucket_ = nullptr;
  std::vector<float> scratch_, staging_;

  std::size_t round_;                 ///< the round under way
  std::vector<MPI_Request> pending_;  ///< of the round's messages
  std::vector<Addition> additions_;   ///< additions_[i] belongs to pending_[i]
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< messages of the round that have not completed
};

}  // namespace lockstep
