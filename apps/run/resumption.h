// The checkpoint that a run goes on from, and which run it is: --resume and the checkpoint folder.
//
// A checkpoint's texts: "run" is the run's id. "parent" ("3f... at step 5") is the run whose
// checkpoint it was started from, if any. "began" is how it was started, so that the same command
// goes on when it is repeated.
#pragma once

#include <string>
#include <vector>

#include "apps/run/options.h"
#include "apps/step/run_plan.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// As every rank knows it; only rank 0 reads files.
struct Resumption {
  std::string file;                   ///< the checkpoint to go on from; empty: from scratch
  CheckpointMetadata metadata;        ///< of that file
  CheckpointMetadata initial;         ///< from scratch with --init: of its file
  std::vector<std::string> warnings;  ///< damaged files that were passed over, one line each
  std::vector<std::string> notes;     ///< what a person may not expect
  std::string run;     ///< 32 hexadecimal digits: the checkpoint's where its run goes on, else new
  std::string parent;  ///< as in checkpoints; empty: none
  std::string began;   ///< as in checkpoints
};

/// Collective. Throws AgreedError: a file that cannot be read, or (usage) a folder that holds
/// another run than --resume speaks of.
Resumption find_resumption(const Comm& comm, const Options& options);

void describe(const Resumption& resumption, const RunPlan& plan, SummaryLines& lines);

/// The shape of a run that goes on with `options` on so many ranks. The checkpoint sets the seed,
/// and the batch, shards and threads that the user left open, because the weights depend on each of
/// them. `notes` gains a line for each option that does nothing. Throws a usage Error if `options`
/// describe another run, and Error if the checkpoint lacks a number. From scratch it is shape_of().
RunShape resumed_shape(const Options& options, const Resumption& resumption, int ranks,
                       std::vector<std::string>& notes);

}  // namespace lockstep
