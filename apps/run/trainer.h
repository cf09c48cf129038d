// A training program: sets a run up on all ranks, trains, evaluates and saves.
//
// train() owns the parts of a run: RunSetup (placement, data, plan, device), TrainingStep,
// Evaluation, Reporter, Saver and Loader. They refer to each other and are destroyed in reverse
// order. All belong to the computing thread, which calls train().
#pragma once

#include <functional>

#include "apps/options/run_options.h"
#include "collectives/world.h"
#include "src/device/device.h"

namespace lockstep {

/// Collective: the whole run. Returns 0 when the run is complete. Throws AgreedError for an error
/// that all ranks see (bad options or data, a checkpoint that does not fit, divergence, a full
/// disk), Error for one that only this rank meets. A run that was asked to stop throws AgreedError
/// too: with kExitRequeue if the same command resumes it, or begins again if no step was done.
///
/// `stop_requested`: whether this rank was asked to stop; one rank is enough to stop all. It is
/// called between the phases of the start-up, in every step, and for every batch of an evaluation.
/// `device`: outlives the call; null: the device of `options`.
int train(World& world, const Options& options, const std::function<bool()>& stop_requested,
          Device* device = nullptr);

}  // namespace lockstep
