// What, besides its samples and its numbers, decides the bits of a run: kept in every checkpoint,
// compared when a run goes on.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/run/options.h"
#include "apps/run/resumption.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "src/device/device.h"

namespace lockstep {

/// As in CheckpointMetadata::texts.
using Circumstances = std::map<std::string, std::string>;

/// Which kernels were measured to be fastest: Device::tuning().
inline constexpr const char* kTuning = "tuning";

/// Collective. On rank 0 those of the run that `plan` and `step` are about to begin; elsewhere
/// those of the rank alone.
Circumstances circumstances(const Comm& comm, const Options& options, const RunPlan& plan,
                            const Device& device, const TrainingStep& step);

/// "canonical", or "that of 2 ranks with 3 shards each", where a reducer adds ranks in the
/// canonical order (collectives/schedule.h).
std::string order_of_shards(const RunPlan& plan);

/// One line for each that is now another than in the checkpoint, as far as it changes what is
/// trained. `options` are those of now. What a checkpoint does not say gives no line, but for what
/// is newer than it: that was then as it is where nobody asks for it.
std::vector<std::string> changes(const Circumstances& before, const Circumstances& now,
                                 const Options& options);

/// Throws the usage error that names the options of `now` which make this another run than the
/// checkpoint's, beyond the last bits: "--lr, --global-batch".
void require_same_run(const Resumption& complete, const Circumstances& now, const Options& options);

}  // namespace lockstep
