// The numbers of a run, worked out from its options, the number of ranks, the size of the data set
// and where it goes on: arithmetic alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/step/step_options.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Whether ranks that share `shards` evenly each have a whole subtree of the canonical order
/// (collectives/schedule.h).
bool shares_subtrees(int ranks, int shards);

struct RunPlan {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0, shard_batch = 0;  ///< shard_batch * shards == global_batch
  int shards = 0, own_shards = 0, first_shard = 0;
  int lanes = 1;           ///< own shards that are under way side by side; divides own_shards
  int threads = 1;         ///< of this rank: kernels add in an order that depends on it
  std::int64_t steps = 0;  ///< of the whole run
  Position start;          ///< where this part of it begins
  std::int64_t dataset_size = 0;
  RateOptions rate;                ///< the options', with the base scaled for the global batch
  double rate_factor = 1;          ///< by which it was
  std::string run, parent, began;  ///< which run it is (apps/run/resumption.h)
  std::vector<std::string> notes;  ///< what a person may not expect, one line each

  int ranks() const { return shards / own_shards; }
  /// Shards are added in the canonical order, where the reducer adds ranks in it.
  bool canonical() const { return shares_subtrees(ranks(), shards); }
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(start.samples + (step - start.step) * global_batch) /
           static_cast<double>(dataset_size);
  }
};

/// Which of the ranks plans.
struct RankOf {
  int rank = 0, ranks = 1;
  int threads = 1;  ///< of this rank
};

/// Throws the same usage Error on all ranks where the numbers do not go together. `options` of a
/// run that goes on are resumed_options() (apps/run/resumption.h).
RunPlan plan_run(const StepOptions& options, RankOf rank, std::int64_t dataset_size,
                 const Position& start);

/// Samples of all ranks per step; throws a usage Error where that is more than any memory holds.
std::int64_t global_batch_of(const StepOptions& options, std::int64_t ranks);

}  // namespace lockstep
