// How the gradient of an embedding is summed: dense as all others are, or as the rows of the words
// that are in the batch (collectives/row_reducer.h). The bits are the same where the reducer adds
// ranks in the canonical order, for that is the order of rows.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "apps/step/run_plan.h"
#include "collectives/comm/comm.h"
#include "collectives/schedule.h"
#include "net/parameters.h"
#include "src/data/dataset.h"

namespace lockstep {

struct RowChoice {
  const Parameter* table = nullptr;  ///< null: no parameter is sparse
  bool rows = false;
  std::int64_t most = 0;  ///< rows of this rank in one step
  std::string text;       ///< for the start-up summary
};

/// Collective: `how` is auto, dense or rows. How many rows there are to be summed is seen from the
/// first samples of `dataset`. Throws AgreedError where rows are asked for and cannot be had.
/// Calls `link` only if the ranks are on several hosts.
RowChoice choose_rows(const Comm& comm, bool memory_is_host, const Layout& layout,
                      const Dataset& dataset, std::string_view how, const RunPlan& plan,
                      const std::function<Link()>& link);

}  // namespace lockstep
