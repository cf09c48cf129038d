// The provenance of a run: everything that decides its bits besides its samples and numbers. Each
// checkpoint holds it, and a resume compares it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/run/options.h"
#include "apps/step/run_plan.h"
#include "apps/step/training_step.h"
#include "src/data/dataset.h"
#include "src/device/device.h"

namespace lockstep {

/// As in CheckpointMetadata::texts.
using Provenance = std::map<std::string, std::string>;

/// Which kernels were measured to be fastest: Device::tuning().
inline constexpr const char* kTuning = "tuning";

/// Collective. Rank 0 gets the provenance of the run that `plan` and `step` are about to begin;
/// other ranks get only their own part of it.
Provenance provenance(const Comm& comm, const Options& options, const RunPlan& plan,
                      const Device& device, const DatasetPair& data, const TrainingStep& step);

/// "canonical", or "that of 2 ranks with 3 shards each": the order of sums if the reducer adds
/// ranks in the canonical order (collectives/schedule.h).
std::string order_of_shards(const RunPlan& plan);

/// A difference between a checkpoint and the run that goes on from it.
struct Change {
  std::string option;  ///< that makes it another run; empty: only the last bits may differ
  std::string note;    ///< one line
};

/// `options` are those of now. Keys missing from an old checkpoint count as the default.
std::vector<Change> changes(const Provenance& before, const Provenance& now,
                            const Options& options);

/// Throws the usage Error that names the options of `changes` which make this another run than that
/// of `file`, whose last step is done.
void require_same_run(const std::string& file, const std::vector<Change>& changes);

}  // namespace lockstep
