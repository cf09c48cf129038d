// The numbers of a run: arithmetic on its options, the number of ranks, the size of the data set
// and the step that it resumes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/step/step_options.h"
#include "net/checkpoint.h"

namespace lockstep {

/// Whether each of `ranks` that share `shards` evenly has a whole subtree of the canonical order
/// (collectives/schedule.h).
bool shares_subtrees(int ranks, int shards);

/// The numbers that a run keeps when it resumes from a checkpoint.
struct RunShape {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0;  ///< samples of all ranks per step
  int shards = 0;                 ///< equal parts of the global batch, added in one fixed tree
  int threads = 1;  ///< of this rank; kernels add in an order that depends on it; 0: not chosen yet
};

/// The shape of a new run. Throws a usage Error if the batch or the shards are too many.
RunShape shape_of(const StepOptions& options, int ranks);

/// Every number that training reads.
struct RunPlan : RunShape {
  std::int64_t shard_batch = 0;  ///< shard_batch * shards == global_batch
  int own_shards = 0, first_shard = 0;
  int shards_at_once = 1;  ///< own shards that are under way side by side; divides own_shards
  std::int64_t steps = 0;  ///< of the whole run
  Position start;          ///< of this part of the run
  std::int64_t dataset_size = 0;
  RateOptions rate;                ///< the options', times rate_factor
  double rate_factor = 1;          ///< the linear scaling rule's
  std::vector<std::string> notes;  ///< results that users may not expect, one line each

  int ranks() const { return shards / own_shards; }
  /// Shards are added in the canonical order, if the reducer adds ranks in it.
  bool canonical() const { return shares_subtrees(ranks(), shards); }
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(start.samples + (step - start.step) * global_batch) /
           static_cast<double>(dataset_size);
  }
  /// The epoch, counted from 1, that ends with step `done`: its last sample is read, or the run
  /// ends. 0: none does.
  std::int64_t epoch_that_ends(std::int64_t done) const;
};

/// Throws the same usage Error on all ranks if the numbers do not go together.
RunPlan plan_run(const StepOptions& options, const RunShape& shape, int rank, int ranks,
                 std::int64_t dataset_size, const Position& start);

}  // namespace lockstep
