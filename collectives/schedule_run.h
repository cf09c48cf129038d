// ScheduleRun: carries out one schedule over MPI messages.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/exchange.h"
#include "collectives/schedule.h"

namespace lockstep {

/// Carries out a schedule once per step on a bucket of schedule.count floats.
class ScheduleRun : public Exchange {
 public:
  ScheduleRun(const Comm& comm, Schedule schedule, std::size_t chunk, int tag);
  using Exchange::start;
  void start(std::span<float* const> rows, float* sum) override;
  bool done() const override { return round_ == schedule_.rounds.size(); }
  std::size_t bytes() const override { return (scratch_.size() + staging_.size()) * sizeof(float); }

 private:
  float* at(std::int64_t address);
  void begin_round();
  void end_round() override;

  Schedule schedule_;
  float* bucket_ = nullptr;
  std::vector<float> scratch_, staging_;
  std::size_t round_;  ///< under way
};

}  // namespace lockstep
