// StepUpdate: from the gradient sums of a step to new weights: clipping and optimizer.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "apps/step/run_plan.h"
#include "apps/step/step_header.h"
#include "apps/step/step_memory.h"
#include "collectives/reducer.h"
#include "net/clip.h"
#include "net/optimizer.h"
#include "src/base/timeline.h"

namespace lockstep {

class StepUpdate {
 public:
  /// All work runs in the reducer's stream, or between two pieces of work there. `buckets` are
  /// those of the step. `device`, `reducer`, `optimizer`, `memory` and `timeline` (null: none)
  /// outlive it. Constructed by the computing thread.
  StepUpdate(Device& device, Reducer& reducer, const std::vector<Range>& buckets,
             const Optimizer& optimizer, const StepMemory& memory, const UpdateOptions& options,
             Track* timeline);

  /// Blocks until its work beside that stream is done. After an error in the middle of a step, some
  /// may be left, and it uses memory of the whole step.
  void synchronize();

  /// The rates of step number `step` of `plan`, with learning rate `rate`.
  UpdateRates rates_at(const RunPlan& plan, std::int64_t step, float rate) const;

  /// Bucket number `bucket` is in order. Any thread, one call at a time. `now` is the device's.
  void reduced(std::size_t bucket, StepInput* now);
  /// All buckets are in order, and reduced() has been called for each. Computing thread.
  void finish(StepInput* now);

  /// Seconds since construction, on all threads; own_seconds(): on the computing thread.
  double seconds() const { return all_ns_ * 1e-9; }
  double own_seconds() const { return own_seconds_; }

 private:
  void plan_spans(const std::vector<Range>& buckets);
  void apply(const std::vector<UpdateSpan>& spans, const StepInput* now);

  Stream& stream_;
  const Layout& layout_;
  const Optimizer& optimizer_;
  const TrainingState& state_;
  Track* timeline_;
  float ema_;
  std::unique_ptr<GradientClip> clip_;  ///< null: gradients are not clipped
  /// By bucket; a single list for all if no update may begin before all gradients are summed.
  std::vector<std::vector<UpdateSpan>> spans_;
  const std::thread::id computes_ = std::this_thread::get_id();
  std::atomic<std::int64_t> all_ns_ = 0;
  double own_seconds_ = 0;
  bool waits_for_all_;
  /// For the long work of a layerwise optimizer, beside the sums of later buckets. Null: `stream_`.
  std::unique_ptr<Stream> beside_;
  std::unique_ptr<Event> summed_, stepped_;
};

}  // namespace lockstep
