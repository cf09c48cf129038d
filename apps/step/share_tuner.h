// --shares auto: ranks get shares that suit their speeds.
//
// Each rank measures the seconds that it computes per shard. At some steps all ranks compare their
// medians, and select shares by them. So a slow host, or a rank beside other work, no longer holds
// up all. Which rank computes a shard changes no bit of the weights (collectives/shares.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collectives/comm/comm.h"
#include "collectives/shares.h"

namespace lockstep {

/// Seconds of the slowest rank per step.
double slowest(const Shares& shares, std::span<const double> seconds_per_shard);

/// The best shares for these speeds, if their gain pays: at least a twentieth of a step, and in at
/// most 100 of `steps_left` steps more than `cost` seconds.
std::optional<Shares> better_shares(const Shares& now, std::span<const double> seconds_per_shard,
                                    std::int64_t steps_left, double cost);

/// Used by the computing thread.
class ShareTuner {
 public:
  /// `shares`: at present. `comm` is for its use only.
  ShareTuner(Comm comm, Shares shares);

  /// A change of shares.
  struct Change {
    Shares shares;
    double gain = 0;              ///< share of a step's time that it should save
    std::vector<double> seconds;  ///< per shard, by rank
  };
  /// Collective, after step number `done` of `steps`. `computing`: seconds that this rank has
  /// computed since its start. Sleeps most steps. None: the shares stay.
  std::optional<Change> after_step(std::int64_t done, std::int64_t steps, double computing);
  /// The change took so many seconds on this rank. Local.
  void changed(double seconds);

 private:
  Comm comm_;
  Shares shares_;
  double last_ = -1;           ///< seconds of computing before this step; -1: not known
  std::vector<double> times_;  ///< per shard, since the last comparison
  std::int64_t wait_;          ///< steps between comparisons
  double cost_;                ///< seconds of a change
};

}  // namespace lockstep
