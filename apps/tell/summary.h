// The start-up summary of a run.
#pragma once

#include <vector>

#include "apps/run/evaluation.h"
#include "apps/tell/reporter.h"
#include "apps/record/resumption.h"
#include "apps/options/run_options.h"
#include "apps/run/run_setup.h"

namespace lockstep {

struct RunSummary {
  const RunSetup& setup;
  const Resumption& resumption;
  const TrainingStep& step;
  const Evaluation& evaluation;
  const Loader& loader;
  std::size_t base_memory;  ///< bytes of the program before any of these
};

/// The numbers of ranks on which `shards` give the same weights (shares_subtrees).
std::vector<int> ranks_of_same_bits(int shards);

/// The summary's line about the order of sums if the reducer's is canonical. `of_accumulated`:
/// layers have statistics of each micro-batch, with one shard of each rank.
std::string order_text(const RunPlan& plan, bool of_accumulated);

/// Collective; rank 0's `reporter` prints it.
void print_summary(const RunSummary& run, Reporter& reporter);

}  // namespace lockstep
