// The numbers of a run, worked out from the options, the number of ranks, the data set and the
// checkpoint that it goes on from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/options.h"
#include "collectives/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The checkpoint to go on from, as every rank knows it; only rank 0 reads files.
struct Resumption {
  std::optional<std::filesystem::path> file;
  CheckpointFacts facts;              ///< of that file
  std::vector<std::string> warnings;  ///< damaged files that were passed over, one line each
};

/// Collective. What --resume and --checkpoint-dir lead to; throws AgreedError.
Resumption find_resumption(const Comm& comm, const Options& options);

/// The threads per rank to ask for: as --threads says, else as the checkpoint was trained with,
/// since kernels add in an order that depends on it; 0 where neither says.
int wanted_threads(const Options& options, const Resumption& resumption);

struct RunPlan {
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0, shard_batch = 0;  ///< shard_batch * shards == global_batch
  int shards = 0, own_shards = 0, first_shard = 0;
  int threads = 1;         ///< of this rank: kernels add in an order that depends on it
  std::int64_t steps = 0;  ///< of the whole run
  Position start;          ///< where this part of it begins
  std::int64_t dataset_size = 0;
  std::vector<std::string> notes;  ///< what a resumed run took over from its checkpoint

  double epoch_at(std::int64_t step) const {
    return static_cast<double>(start.samples + (step - start.step) * global_batch) /
           static_cast<double>(dataset_size);
  }
};

/// Throws the same usage error on all ranks where the numbers do not go together. `threads` of each
/// rank.
RunPlan plan_run(const Options& options, const Comm& comm, int threads, std::int64_t dataset_size,
                 const Resumption& resumption);

}  // namespace lockstep
