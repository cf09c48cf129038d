// The start-up summary of a run.
#pragma once

#include "apps/record/run_facts.h"
#include "apps/tell/reporter.h"

namespace lockstep {

/// The summary's line about the order of sums if the reducer's is canonical.
std::string order_text(const RunPlan& plan);

/// Rank 0's `reporter` prints it.
void print_summary(const RunParts& run, const RunFacts& facts, const Loader& loader,
                   Reporter& reporter);

}  // namespace lockstep
