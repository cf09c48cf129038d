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

#include "apps/options.h"
#include "collectives/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// As every rank knows it; only rank 0 reads files.
struct Resumption {
  std::optional<std::filesystem::path> file;  ///< the checkpoint to go on from; none: from scratch
  CheckpointMetadata metadata;                ///< of that file
  std::vector<std::string> warnings;  ///< damaged files that were passed over, one line each
  std::vector<std::string> notes;     ///< what a person may not expect
  std::string run;     ///< 32 hexadecimal digits: the checkpoint's where its run goes on, else new
  std::string parent;  ///< as in checkpoints; empty: none
  std::string began;   ///< as in checkpoints
};

/// Collective. Throws AgreedError: a file that cannot be read, or (usage) a folder that holds
/// another run than --resume speaks of.
Resumption find_resumption(const Comm& comm, const Options& options);

/// A whole number above 0 among the texts of resumption.file; throws Error that names both.
std::int64_t number_of(const Resumption& resumption, const std::string& name);

/// The threads per rank to ask for: as --threads says, else as the checkpoint was trained with,
/// since kernels add in an order that depends on it; 0 where neither says.
int wanted_threads(const Options& options, const Resumption& resumption);

}  // namespace lockstep
