// The device of a training run, as its options ask for it.
#pragma once

#include <memory>

#include "apps/step/placement.h"
#include "apps/step/run_plan.h"
#include "apps/step/step_options.h"
#include "src/data/dataset.h"

namespace lockstep {

/// make_device() (apps/step/placement.h) by `options`.
std::unique_ptr<Device> make_training_device(const Comm& comm, const StepOptions& options,
                                             Placement& placement);

/// Collective. Throws a usage Error where `device` has no activations of --precision.
void require_precision(const Comm& comm, const Device& device, const StepOptions& options);

/// Collective. tune() (apps/step/tuning.h) for the model of a run; `before`: the tuning() of the
/// run that goes on.
void choose_kernels(const Comm& comm, Device& device, const StepOptions& options,
                    const RunPlan& plan, const Dataset& dataset, const std::string& before);

}  // namespace lockstep
