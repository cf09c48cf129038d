// The input of a step from the host, and its totals. They travel in the header: the first elements
// of the gradient arena (Layout::kHeader). The header is summed over shards and ranks with the
// first bucket, so it costs no message.
#pragma once

#include <cstdint>

#include "net/loss.h"
#include "net/optimizer.h"

namespace lockstep {

/// The values that vary from step to step. Kernels read them through a pointer, so that a captured
/// step can be repeated.
struct StepInput {
  UpdateRates rates;
  /// 1 if this rank votes for it, else 0.
  float stop = 0, save = 0;
  /// Position of the step's samples in the run's stream, which keys their random numbers.
  std::int64_t first_position = 0;
};

/// The step's totals over all ranks, the same on each of them.
struct StepTotals {
  /// Mean over the global batch; NaN if training has diverged (Score::diverged).
  double cross_entropy = 0;
  double top1_share = 0;
  /// At least one rank voted for it.
  bool stop = false, save = false;
  /// The loss term of weight decay before the step; 0 if the caller did not ask for it.
  double penalty = 0;
  /// The host has waited for the end of the step, so the device has just done it.
  bool waited = false;
};

/// Enqueues the work that writes a shard's header: its score, which is then cleared, and with the
/// rank's last shard the rank's votes. All memory is the device's.
void write_header(Stream& stream, Score* score, const StepInput* now, std::int64_t global_batch,
                  bool last_shard, float* header);

/// Decodes the sum of all headers.
StepTotals read_header(const float* header, std::int64_t global_batch);

}  // namespace lockstep
