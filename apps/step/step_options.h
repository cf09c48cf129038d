// The options that a training step depends on.
#pragma once

#include "apps/step/compute_options.h"
#include "apps/step/rank_options.h"
#include "apps/step/schedule_options.h"
#include "net/model_options.h"
#include "net/update_options.h"
#include "src/data/data_options.h"

namespace lockstep {

struct StepOptions {
  DataOptions data;
  ModelOptions model;
  UpdateOptions optimizer;
  ScheduleOptions schedule;
  RankOptions ranks;
  ComputeOptions device;

  LossScaling loss_scaling() const { return optimizer.loss_scaling(model.precision); }
};

}  // namespace lockstep
