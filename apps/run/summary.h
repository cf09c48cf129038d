// The start-up summary of a run, printed once.
#pragma once

#include "apps/run/evaluation.h"
#include "apps/run/options.h"
#include "apps/run/reporter.h"
#include "apps/run/resumption.h"
#include "apps/step/placement.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"

namespace lockstep {

struct RunSummary {
  Comm comm;
  const Options& options;
  const RunPlan& plan;
  const Resumption& resumption;
  const Placement& placement;
  const Device& device;
  const DatasetPair& data;
  const TrainingStep& step;
  const Evaluation& evaluation;
  const Loader& loader;
  std::size_t base_memory;  ///< bytes that the program held before it made any of the above
};

/// On which numbers of ranks `shards` give the same weights (shares_subtrees).
std::vector<int> ranks_of_same_bits(int shards);

/// What the summary says of the order of sums where the reducer's is canonical. `of_accumulated`:
/// layers have statistics of each accumulated batch, which has one shard of each rank.
std::string order_text(const RunPlan& plan, bool of_accumulated);

/// Collective; rank 0's `reporter` prints.
void print_summary(const RunSummary& run, Reporter& reporter);

}  // namespace lockstep
