// What a run goes on from, and which run it is: --resume and the checkpoint folder, worked out.
//
// A checkpoint's texts say it: "run" is the run's id; "parent" ("3f... at step 5") the run whose
// checkpoint it was started from, if any; "began" how it was started, so that the very same command
// goes on wherever it is repeated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/run/options.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// As every rank knows it; only rank 0 reads files.
struct Resumption {
  std::optional<std::filesystem::path> file;  ///< the checkpoint to go on from; none: from scratch
  CheckpointMetadata metadata;                ///< of that file
  CheckpointMetadata initial;                 ///< from scratch with --init: the texts of its file
  std::vector<std::string> warnings;  ///< damaged files that were passed over, one line each
  std::vector<std::string> notes;     ///< what a person may not expect
  std::string run;     ///< 32 hexadecimal digits: the checkpoint's where its run goes on, else new
  std::string parent;  ///< as in checkpoints; empty: none
  std::string began;   ///< as in checkpoints
};

/// Collective. Throws AgreedError: a file that cannot be read, or (usage) a folder that holds
/// another run than --resume speaks of.
Resumption find_resumption(const Comm& comm, const Options& options);

/// `options` as the run goes on with them on so many ranks: seed, threads, batch and shards that
/// they leave open are the checkpoint's, for the weights depend on each of them. `notes` gains a
/// line for each that is another than before. Throws a usage Error where they speak of another run,
/// and Error where the checkpoint does not say enough. From scratch they stay as they are.
Options resumed_options(const Options& options, const Resumption& resumption, int ranks,
                        std::vector<std::string>& notes);

}  // namespace lockstep
