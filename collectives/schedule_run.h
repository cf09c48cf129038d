// ScheduleRun: carries out one schedule over MPI messages.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/comm/communicator.h"
#include "collectives/exchange.h"
#include "collectives/schedule.h"

namespace lockstep {

/// Carries out a schedule once per step on a bucket of schedule.count floats.
class ScheduleRun : public Exchange {
 public:
  /// `chunk`: bytes of a chunk of a message. `tag`: used by no other exchange of `comm`. Both are
  /// the same on all ranks.
  ScheduleRun(const Comm& comm, Schedule schedule, std::size_t chunk, int tag);
  using Exchange::start;
  void start(std::span<float* const> rows, float* sum) override;
  bool advance(bool wait = false) override;
  bool done() const override { return round_ == schedule_.rounds.size(); }
  std::size_t bytes() const override { return (scratch_.size() + staging_.size()) * sizeof(float); }

 private:
  /// The addition after a message has arrived; count 0: none.
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

  std::size_t round_;                 ///< under way
  std::vector<MPI_Request> pending_;  ///< messages of the round
  std::vector<Addition> additions_;   ///< additions_[i] belongs to pending_[i]
  std::vector<int> completed_;
  std::size_t left_ = 0;  ///< messages of the round that are under way
};

}  // namespace lockstep
