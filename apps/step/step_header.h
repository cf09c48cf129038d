// The input of a step from the host, its totals, and the header that carries them: the first
// elements of the gradient arena (Layout::kHeader). The header is summed over shards and ranks with
// the first bucket, so it costs no message.
#pragma once

#include <cstdint>

#include "net/loss.h"
#include "net/loss_scale.h"
#include "net/optimizer.h"

namespace lockstep {

/// What varies from step to step: bodies read it through a pointer, so that a step can be repeated
/// as it was given.
struct StepInput {
  UpdateRates rates;
  /// What `rates` come from where the loss is scaled dynamically.
  RatesBySkips by_skips;
  /// 1 where this rank votes for it, else 0.
  float stop = 0, save = 0;
  /// Of the step's samples in the run's stream: what random numbers of samples are keyed by.
  std::int64_t first_position = 0;
};

/// The step's totals over all ranks: the same on each of them, and whatever their number.
struct StepTotals {
  /// Mean over the global batch; NaN where training has diverged (Score::diverged).
  double cross_entropy = 0;
  double top1_share = 0;
  /// At least one rank voted for it.
  bool stop = false, save = false;
  /// What decay adds to the loss under the weights before the step; 0 where nobody asked.
  double penalty = 0;
  /// After the step.
  LossScale loss_scale = {};
};

/// Gives the work that writes a shard's header: its score, which is cleared for the next, and with
/// the last of a rank's shards the rank's votes. All memory is the device's.
void write_header(Stream& stream, Score* score, const StepInput* now, std::int64_t global_batch,
                  bool last_shard, float* header);

/// Decodes the sum of all headers.
StepTotals read_header(const float* header, std::int64_t global_batch);

}  // namespace lockstep
