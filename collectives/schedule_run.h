// ScheduleRun: carries out one schedule over MPI messages, without a thread and without ever
// blocking.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/exchange.h"
#include "collectives/schedule.h"

namespace lockstep {

/// A schedule that is carried out once per step on the same bucket, of schedule.count floats.
class ScheduleRun : public Exchange {
 public:
  /// `chunk`: bytes of which a message is cut into chunks, the same on all ranks. `tag`: the same
  /// on all ranks, used by no other exchange of `comm`.
  ScheduleRun(const Comm& comm, Schedule schedule, std::size_t chunk, int tag);
  void start(float* bucket) override;
  bool advance(bool wait = false) override;
  bool done() const override { return round_ == schedule_.rounds.size(); }
  std::size_t bytes() const override { return (scratch_.size() + staging_.size()) * sizeof(float); }

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
  std::int64_t chunk_;  ///< elements
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
