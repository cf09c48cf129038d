// The numbers of a run, worked out from the options, the number of ranks, the data set and the
// checkpoint that it goes on from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/options.h"
#include "apps/resumption.h"
#include "collectives/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

struct RunPlan {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0, shard_batch = 0;  ///< shard_batch * shards == global_batch
  int shards = 0, own_shards = 0, first_shard = 0;
  int threads = 1;         ///< of this rank: kernels add in an order that depends on it
  std::int64_t steps = 0;  ///< of the whole run
  Position start;          ///< where this part of it begins
  std::int64_t dataset_size = 0;
  std::string run, parent, began;  ///< which run it is (apps/resumption.h)
  std::vector<std::string> notes;  ///< what a resumed run took over from its checkpoint

  double epoch_at(std::int64_t step) const {
    return static_cast<double>(start.samples + (step - start.step) * global_batch) /
           static_cast<double>(dataset_size);
  }
};

/// Throws the same usage error on all ranks where the numbers do not go together, or where the
/// checkpoint was trained on other data than `data` (DatasetPair::identity). `threads` of each
/// rank.
RunPlan plan_run(const Options& options, const Comm& comm, int threads, std::int64_t dataset_size,
                 const std::string& data, const Resumption& resumption);

}  // namespace lockstep
