// Resumption: the checkpoint that a run resumes from, by --resume and the folder of the run.
#pragma once

#include <string>
#include <vector>

#include "apps/options/run_options.h"
#include "apps/record/run_facts.h"
#include "apps/step/run_plan.h"
#include "collectives/comm/comm.h"
#include "net/checkpoint.h"

namespace lockstep {

/// The same on all ranks; only rank 0 reads files.
struct Resumption {
  std::string file;                   ///< the checkpoint to resume from; empty: from scratch
  CheckpointMetadata metadata;        ///< of that file
  RunFacts before;                    ///< in that file
  std::string init;                   ///< from scratch with --init: its file
  RunFacts initial;                   ///< in that file
  std::vector<std::string> warnings;  ///< damaged files that were skipped, one line each
  std::vector<std::string> notes;     ///< results that users may not expect
  /// The run's id, 32 hexadecimal digits: the checkpoint's if its run resumes, else new.
  std::string run;
  std::string parent;  ///< "3f... at step 5": the checkpoint that the run began from; empty: none
  /// --resume when the run began, so that the same command resumes it when it is repeated.
  std::string began;

  bool in_memory = false;  ///< the file is a state in memory, not in the run's folder

  bool is_same_run() const { return run == before.text("id"); }
};

/// Collective. `folder`: of the run's checkpoints; empty: there is none. `in_memory`: the hosts have
/// perhaps a newer state of its run. Throws AgreedError if a file cannot be read, or (usage) if the
/// folder contains another run than --resume names.
Resumption find_resumption(const Comm& comm, const Options& options, const std::string& folder,
                           bool in_memory = false);

/// The shape of a run with `options` on `ranks`. From scratch it is shape_of(). Otherwise the
/// checkpoint sets the seed, and the batch, shards and threads that the user left open, because the
/// weights depend on them. `notes` gains a line for each option that does nothing. Throws a usage
/// Error if `options` describe another run, and Error if the checkpoint lacks a number.
RunShape resumed_shape(const Options& options, const Resumption& resumption, int ranks,
                       std::vector<std::string>& notes);

/// Throws the usage Error if the run goes on in its folder, and `changes` make it another run. A
/// run that is not `complete` may get more steps.
void require_same_run(const Resumption& resumption, const std::vector<Change>& changes,
                      bool complete);

}  // namespace lockstep
