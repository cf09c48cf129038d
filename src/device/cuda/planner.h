// The choice among the plans of libraries. If the tuning contains the work, its plan is used. Else,
// while tuning is on, a race decides, also if no library offers the tuning's plan any more. Else
// the first library that supports the work decides, by its own heuristic.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/device/cuda/plan.h"
#include "src/device/memory.h"
#include "src/device/tuning.h"

namespace lockstep::cuda {

class Planner {
 public:
  /// The index of the fastest of `plans`, of which there are at least two.
  using Race = std::function<std::size_t(const Convolution& work, const Plans& plans)>;

  /// The libraries must outlive the plans. `device`: its name, and settings that affect the choice.
  Planner(std::vector<const Library*> libraries, const std::string& device);

  /// null: no library supports the work. Throws Error if no library offers the tuning's plan and
  /// there is no race.
  std::shared_ptr<const Plan> choose(const Convolution& work);

  Tuning& tuning() { return tuning_; }
  /// From now on `race` decides about work that the tuning lacks or whose plan is gone, and the
  /// tuning gets the result.
  /// Empty: ends this.
  void set_race(Race race) { race_ = std::move(race); }

 private:
  std::vector<const Library*> libraries_;
  Tuning tuning_;
  Race race_;
};

/// Planner::Race by time, on random numbers in memory of a device, which outlives it. It keeps the
/// memory of its largest race.
class RaceTrack {
 public:
  explicit RaceTrack(Device& device) : device_(device), stream_(device.stream()) {}
  /// Blocks. A plan that fails, or whose workspace does not fit, loses.
  std::size_t winner(const Convolution& work, const Plans& plans);

 private:
  struct Room {
    Memory memory = {};
    std::size_t bytes = 0;
  };
  std::byte* at_least(Room& room, std::size_t bytes);
  void* numbers(Room& room, std::int64_t count, Type type);

  Device& device_;
  std::unique_ptr<Stream> stream_;
  Room x_, w_, b_, y_, workspace_;
};

}  // namespace lockstep::cuda
