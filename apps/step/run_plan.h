// The numbers of a run: arithmetic on its options, the number of ranks, the size of the data set
// and the step that it resumes from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/step/step_options.h"
#include "collectives/shares.h"
#include "net/checkpoint.h"

namespace lockstep {

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
  Shares shares;                 ///< of all ranks
  int own_shards = 0, first_shard = 0;
  int shards_at_once = 1;  ///< own shards that are under way side by side; divides own_shards
  /// --sync-bn adds the statistics of one shard of each rank, an accumulated micro-batch, instead
  /// of those of all shards.
  bool sums_micro_batches = false;
  std::int64_t steps = 0;  ///< of the whole run
  Position start;          ///< of this part of the run
  std::int64_t dataset_size = 0;
  RateOptions rate;                  ///< the options', times rate_factor
  double rate_factor = 1;            ///< the linear scaling rule's
  std::vector<float> class_weights;  ///< in the loss, by label; empty: none
  std::vector<std::string> notes;    ///< results that users may not expect, one line each

  Range own() const { return {first_shard, own_shards}; }
  /// The samples that all steps before step number `step` (0 is the first) read.
  std::int64_t position_of(std::int64_t step) const {
    return start.samples + (step - start.step) * global_batch;
  }
  double epoch_at(std::int64_t step) const {
    return static_cast<double>(position_of(step)) / dataset_size;
  }
  /// This rank, number `rank`, has its part of `others` from now on.
  void share(const Shares& others, int rank);
  /// The epoch, counted from 1, that ends with step `done`: its last sample is read, or the run
  /// ends. 0: none does.
  std::int64_t epoch_that_ends(std::int64_t done) const;
};

/// Throws the same usage Error on all ranks if the numbers do not go together.
RunPlan plan_run(const StepOptions& options, const RunShape& shape, int rank, int ranks,
                 std::int64_t dataset_size, const Position& start);

}  // namespace lockstep
