// TrainingStep: forward, backward, reduction and update of one step on one rank. It joins the
// parts: StepMemory, GradientSync and StepUpdate. The trainer and the step's benchmark run it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/step/gradient_sync.h"
#include "apps/step/run_plan.h"
#include "apps/step/step_memory.h"
#include "apps/step/step_options.h"
#include "apps/step/step_parts.h"
#include "apps/step/step_slots.h"
#include "apps/step/step_update.h"
#include "src/base/timeline.h"
#include "src/data/loader.h"

namespace lockstep {

/// Requests of a rank to all ranks after this step. They are summed over the ranks with the
/// gradients, so they cost no message.
struct Votes {
  bool stop = false;  ///< save a checkpoint and end
  bool save = false;  ///< save a checkpoint

  Votes operator|(Votes other) const { return {stop || other.stop, save || other.save}; }
};

/// Seconds of the computing thread since construction; optimizer: of all threads that ran it.
struct StepTimes {
  double forward = 0, backward = 0, optimizer = 0, exposed = 0, loader = 0;

  StepTimes operator-(const StepTimes& o) const {
    return {forward - o.forward, backward - o.backward, optimizer - o.optimizer,
            exposed - o.exposed, loader - o.loader};
  }
};

/// Used by the computing thread, which constructs it.
class TrainingStep {
 public:
  /// Initial weights are those of plan.seed, the same on all ranks. `device`, `recorder`, `plan`
  /// and `timeline` (null: none) outlive the step. The phases of this rank go to `recorder` and
  /// `timeline`; on an asynchronous device they begin when the work is enqueued. Throws Error if
  /// memory is short.
  TrainingStep(StepParts parts, Device& device, RankRecorder& recorder, const StepOptions& options,
               const RunPlan& plan, Timeline* timeline = nullptr);

  ~TrainingStep();

  /// Collective. Enqueues step number `step` (0 is the first of the run) on the next own_shards
  /// batches of `loader`. Its totals include the penalty if `wants_penalty`. An asynchronous device
  /// does it later: between two calls collect() must be called until it returns none.
  void enqueue(Loader& loader, std::int64_t step, float rate, Votes votes,
               bool wants_penalty = false);
  /// The totals of the oldest step that is not collected, once DeviceTraits::run_ahead others are
  /// enqueued after it, or if `all`: blocks until it is done. So all ranks collect a step after the
  /// same number of others.
  std::optional<StepTotals> collect(bool all = false);
  /// Steps that are not collected although the device has done them.
  int done_ahead() { return slots_.done(); }
  /// Steps after the one that is enqueued whose batches must be prepared. If one of them cannot be
  /// made, this rank votes for a stop before that step.
  int steps_ahead() const { return 1 + device_.traits().run_ahead; }
  /// enqueue(), then collect() until all are collected. Returns the totals of this step.
  StepTotals run(Loader& loader, std::int64_t step, float rate, Votes votes);

  /// Collective, when all steps are collected: the plan has other shares, and the loader of the
  /// next step is another. Needs --shares auto.
  void share();

  /// Local, when all steps are collected: the mean loss of the last batch under the present
  /// weights. Changes nothing that training reads.
  double loss_now();

  /// For images of all pixels.
  const Model& model() const { return models_.full(); }
  /// SizedModels::work()
  double work(double from, double to) const { return models_.work(from, to); }
  void time_layers(LayerTimer* timer) { models_.time_layers(timer); }
  const Layout& layout() const { return model().layout(); }
  const Optimizer& optimizer() const { return *optimizer_; }
  const Reducer& reducer() const { return sync_->reducer(); }
  Policy policy() const { return sync_->policy(); }
  /// Own shards that are under way side by side; the loader holds a batch for each.
  int shards_at_once() const { return sync_->slots(); }
  /// Layers have sums over all shards of the step: --sync-bn.
  bool sync_bn() const { return sync_->across(0) != nullptr; }
  /// The samples of the layers' statistics: "shard", "global_batch" or "micro_batch_of_N", one of N
  /// accumulated batches; empty: there are none.
  std::string statistics() const;
  const std::vector<Range>& buckets() const { return sync_->buckets(); }
  double bucket_mb() const { return bucket_mb_; }

  /// The device's arenas.
  const TrainingState& state() const { return memory_->state(); }
  /// StepMemory::sections(): the same on all ranks.
  std::vector<Section> sections() { return memory_->sections(); }
  /// The weights as the host sees them, until the next step.
  const float* weights() { return memory_->weights(); }
  /// GradientSync::sections() of this rank, when all steps are collected.
  std::vector<Section> own_sections() const { return sync_->sections(); }
  /// Call after writing the state of a run to sections().
  void restored() { memory_->restored(); }
  /// Bytes of sections().
  std::size_t saved_bytes() const { return memory_->saved_bytes(); }
  /// The weights that evaluation uses.
  float* evaluated() { return state().average ? state().average : state().parameters; }
  /// Mean gradients of the last step as the host sees them, until the next step.
  const float* gradients() { return memory_->read(sync_->gradients()); }

  /// The track of the computing thread; null: no timeline is kept.
  Track* track() const { return timeline_ ? &timeline_->compute : nullptr; }
  StepTimes times() const;
  /// Bytes of each part on this rank.
  std::vector<std::pair<std::string, std::size_t>> memory() const;

 private:
  void choose_model(std::int64_t step);
  void train(Loader& loader);
  void load(Loader& loader, int first);
  void forward(int first);
  void forward_shard(int shard, int slot);
  void backward(int first);
  void update(int bucket);
  void finish_sums();
  void finish_update();
  template <class Work>
  void timed(const char* phase, double& seconds, Work work);
  template <class Work>
  void or_abort(Work work);
  bool wait_for(const StepSlots::Slot& slot);
  TrainingBatch batch_of(int shard) const;
  void set_class_weights();
  LossSpec loss_of(const Batch& batch, View logits) const;
  void enqueue_penalty(StepAnswer* answer);
  Score* score() const { return static_cast<Score*>(block_.at(score_)); }
  StepInput* now() const { return static_cast<StepInput*>(block_.at(now_)); }

  Device& device_;
  RankRecorder& recorder_;
  Timeline* timeline_;
  const RunPlan& plan_;
  Memory class_weights_;  ///< of the device; null: none
  LossModifiers loss_;    ///< without those of a batch
  bool graphs_;  ///< steps may be repeated as one
  double bucket_mb_;
  std::unique_ptr<Stream> stream_;  ///< of the computing thread
  SizedModels models_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<SharedWork> shared_work_;
  std::unique_ptr<StepMemory> memory_;
  std::unique_ptr<StepUpdate> update_;
  /// Memory of the device: the score of the shard, the step's input, the penalty and its parts.
  Arena block_;
  std::size_t score_ = 0, now_ = 0, penalty_ = 0;
  StepSlots slots_;
  Memory score_now_;                ///< the Score of loss_now(), on the host
  std::unique_ptr<Event> updated_;  ///< all updates of the step
  std::vector<Batch> batches_;      ///< by slot: of the shards under way, or the last
  StepTimes times_;
  std::unique_ptr<GradientSync> sync_;  ///< its thread calls update_ until it goes
  std::unique_ptr<Graph> graph_;        ///< the work of a step that is repeated
};

}  // namespace lockstep
