// The start-up summary of a run.
#pragma once

#include <vector>

#include "apps/record/run_facts.h"
#include "apps/tell/reporter.h"

namespace lockstep {

/// The numbers of ranks on which `shards` give the same weights (shares_subtrees).
std::vector<int> ranks_of_same_bits(int shards);

/// The summary's line about the order of sums if the reducer's is canonical. `of_accumulated`:
/// layers have statistics of each micro-batch, with one shard of each rank.
std::string order_text(const RunPlan& plan, bool of_accumulated);

/// Rank 0's `reporter` prints it.
void print_summary(const RunParts& run, const RunFacts& facts, const Loader& loader,
                   Reporter& reporter);

}  // namespace lockstep
