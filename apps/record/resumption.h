// Resumption: the checkpoint that a run resumes from, by --resume and the checkpoint folder.
//
// A checkpoint's texts: "run" is the run's id. "parent" ("3f... at step 5") is the checkpoint that
// it was started from, if any. "began" is --resume when it was started, so that the same command
// resumes it when it is repeated.
#pragma once

#include <string>
#include <vector>

#include "apps/options/run_options.h"
#include "apps/step/run_plan.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The same on all ranks; only rank 0 reads files.
struct Resumption {
  std::string file;                   ///< the checkpoint to resume from; empty: from scratch
  CheckpointMetadata metadata;        ///< of that file
  std::string init;                   ///< from scratch with --init: its file
  CheckpointMetadata initial;         ///< of that file
  std::vector<std::string> warnings;  ///< damaged files that were skipped, one line each
  std::vector<std::string> notes;     ///< results that users may not expect
  std::string run;     ///< 32 hexadecimal digits: the checkpoint's if its run resumes, else new
  std::string parent;  ///< as in checkpoints; empty: none
  std::string began;   ///< as in checkpoints
};

/// The text of that name; empty if there is none.
std::string text_of(const CheckpointMetadata& metadata, const char* name);

/// Collective. Throws AgreedError if a file cannot be read, or (usage) if the folder contains
/// another run than --resume names.
Resumption find_resumption(const Comm& comm, const Options& options);

/// The shape of a run with `options` on `ranks`. From scratch it is shape_of(). Otherwise the
/// checkpoint sets the seed, and the batch, shards and threads that the user left open, because the
/// weights depend on them. `notes` gains a line for each option that does nothing. Throws a usage
/// Error if `options` describe another run, and Error if the checkpoint lacks a number.
RunShape resumed_shape(const Options& options, const Resumption& resumption, int ranks,
                       std::vector<std::string>& notes);

}  // namespace lockstep
