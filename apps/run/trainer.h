// What a training program does: sets a run up on all ranks, trains, evaluates, saves.
#pragma once

#include <functional>

#include "apps/run/options.h"
#include "collectives/comm/comm.h"
#include "src/device/device.h"

namespace lockstep {

/// Collective: the whole run. Returns the exit code: 0 when the run is complete, kExitRequeue when
/// it was asked to stop and has saved a checkpoint to go on from. Throws AgreedError for what all
/// ranks see (bad options or data, a checkpoint that does not fit, divergence, a full disk, and,
/// with kExitRequeue, a request to stop before the first step), Error for what one rank alone
/// meets.
///
/// `stop_requested`: whether this rank was asked to stop; one rank is enough to stop all. It is
/// looked at between the phases of the start-up, with every step, and with every batch of an
/// evaluation. `device`: null for the one that `options` name; it outlives the call.
int train(World& world, const Options& options, const std::function<bool()>& stop_requested,
          Device* device = nullptr);

}  // namespace lockstep
