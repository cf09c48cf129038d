// The floor under a training step: the times of its convolutions and dense layers alone, and the
// rate of a large matrix product.
#pragma once

#include "collectives/comm/flight_recorder.h"
#include "net/model.h"

namespace lockstep {

struct BareTimes {
  /// Forward, weight and input gradients of all linear layers of one batch; medians, summed.
  double affine_seconds = 0;
  /// Per second, of a 1024 x 2048 x 2048 product.
  double gemm_flops = 0;
};

/// Times the plans of the convolutions and dense layers of model `entry`, made for training on
/// batches of `batch` samples, one by one on buffers of their own, `rounds` times each. Every rank
/// that shares the machine must do so at the same time, as in the step itself. `record` is told of
/// each round.
BareTimes time_bare(Device& device, const ModelEntry& entry, Shape sample, int classes,
                    std::int64_t batch, Type type, int rounds, Record& record);

}  // namespace lockstep
