// A training program: it sets a run up on all ranks, trains, evaluates and saves.
//
// train() owns the parts of a run: RunSetup (placement, data, plan, device), TrainingStep,
// Evaluation, Reporter, Saver and Loader. They refer to each other and go in reverse order. All of
// them belong to the computing thread, which calls train().
#pragma once

#include <functional>

#include "apps/run/options.h"
#include "collectives/world.h"
#include "src/device/device.h"

namespace lockstep {

/// Collective: the whole run. Returns 0 when the run is complete. Throws AgreedError for what all
/// ranks see (bad options or data, a checkpoint that does not fit, divergence, a full disk), Error
/// for what only one rank meets. A run that was asked to stop throws AgreedError too: with
/// kExitRequeue if the same command goes on from its checkpoint, or from the start if no step was
/// done.
///
/// `stop_requested`: whether this rank was asked to stop; one rank is enough to stop all. It is
/// looked at between the phases of the start-up, with every step, and with every batch of an
/// evaluation. `device`: null for the one that `options` name; it outlives the call.
int train(World& world, const Options& options, const std::function<bool()>& stop_requested,
          Device* device = nullptr);

}  // namespace lockstep
