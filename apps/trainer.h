// The training program behind train_cifar: sets a run up on all ranks, trains, evaluates, saves.
#pragma once

#include <string>

#include "apps/options.h"
#include "collectives/comm.h"

namespace lockstep {

/// Collective: the whole run. Returns the exit code: 0 when the run is complete, kExitRequeue when
/// it was asked to stop and has saved a checkpoint to go on from. Throws AgreedError for what all
/// ranks see (bad options or data, a checkpoint that does not fit, divergence, a full disk), Error
/// for what one rank alone meets.
int train(World& world, const Options& options);

}  // namespace lockstep
