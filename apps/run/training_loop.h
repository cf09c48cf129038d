// The training loop: steps, reports, evaluations and checkpoints until the run ends.
#pragma once

#include <functional>

#include "apps/evaluate/evaluation.h"
#include "apps/record/run_place.h"
#include "apps/run/run_setup.h"
#include "apps/run/saver.h"
#include "apps/tell/reporter.h"

namespace lockstep {

/// The parts that the loop runs with. The caller owns them.
struct LoopParts {
  RunSetup& setup;
  const RunPlace& place;
  TrainingStep& step;
  std::unique_ptr<Loader>& loader;  ///< another after the shares of the ranks have changed
  Evaluation& evaluation;
  Reporter& reporter;
  Saver& saver;
  const std::function<bool()>& stop_requested;  ///< see train()
};

/// Collective. Throws AgreedError if a rank cannot make the batches of the steps after `done`: the
/// reason for which it has voted to stop.
void require_batches(const LoopParts& parts, std::int64_t done);

/// Collective, on the computing thread. Trains from setup.plan.start, with `progress`, to the end
/// of the run. Throws AgreedError if the run diverges, and with kExitRequeue if it was asked to
/// stop and has saved a checkpoint.
void run_training_loop(const LoopParts& parts, const RunProgress& progress);

}  // namespace lockstep
