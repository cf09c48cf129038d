#include "apps/step/share_tuner.h"

#include <algorithm>
#include <array>
#include <utility>

namespace lockstep {
namespace {

/// Steps between comparisons. The first steps after a change are left out, because they are slower.
constexpr std::int64_t kLeastWait = 8, kMostWait = 256, kWarmUp = 2;

}  // namespace

double slowest(const Shares& shares, std::span<const double> seconds_per_shard) {
  double most = 0;
  for (int rank = 0; rank < shares.ranks(); ++rank)
    most = std::max(most, shares.of(rank).count * seconds_per_shard[rank]);
  return most;
}

std::optional<Shares> better_shares(const Shares& now, std::span<const double> seconds_per_shard,
                                    std::int64_t steps_left, double cost) {
  constexpr double kLeastGain = 0.05;
  constexpr std::int64_t kPaysWithin = 100;  // steps
  std::vector<double> speeds;
  for (const double seconds : seconds_per_shard) speeds.push_back(1 / std::max(seconds, 1e-9));
  const Shares best = choose_shares(now.shards(), now.ranks(), speeds);
  const double before = slowest(now, seconds_per_shard),
               gain = before - slowest(best, seconds_per_shard);
  if (gain < kLeastGain * before || gain * std::min(steps_left, kPaysWithin) < cost)
    return std::nullopt;
  return best;
}

ShareTuner::ShareTuner(Comm comm, Shares shares)
    : comm_(std::move(comm)), shares_(std::move(shares)), wait_(kLeastWait), cost_(0.05) {}

std::optional<ShareTuner::Change> ShareTuner::after_step(std::int64_t done, std::int64_t steps,
                                                         double computing) {
  if (last_ >= 0) times_.push_back((computing - last_) / shares_.of(comm_.rank()).count);
  last_ = computing;
  if (std::ssize(times_) < wait_ || done >= steps) return std::nullopt;
  // The median, because a single pause of a rank says nothing about its speed.
  const auto middle = times_.begin() + (kWarmUp + std::ssize(times_)) / 2;
  std::nth_element(times_.begin() + kWarmUp, middle, times_.end());
  Change change;
  double cost = 0;  // it differs by rank too: all take the largest
  for (const auto& [seconds, own_cost] : comm_.of_all(std::array{*middle, cost_})) {
    change.seconds.push_back(seconds);
    cost = std::max(cost, own_cost);
  }
  times_.clear();
  // All ranks have the same numbers here, so all decide alike without a further message.
  const auto better = better_shares(shares_, change.seconds, steps - done, cost);
  // Changes that follow one another would be noise: each waits longer than the one before.
  wait_ = std::clamp(better ? 2 * wait_ : wait_ / 2, kLeastWait, kMostWait);
  if (!better) return std::nullopt;
  change.gain = 1 - slowest(*better, change.seconds) / slowest(shares_, change.seconds);
  change.shares = shares_ = *better;
  return change;
}

void ShareTuner::changed(double seconds) {
  cost_ = seconds;
  // The time until the next call contains the change itself, so it is not measured.
  last_ = -1;
}

}  // namespace lockstep
