// TrainingStep: forward, backward, reduction and update of one step on one rank, with all the
// memory that they need. The one place that knows both layers and ranks; the trainer and the step's
// benchmark run it.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/step/host_copy.h"
#include "apps/step/run_plan.h"
#include "apps/step/shards_together.h"
#include "apps/step/step_mail.h"
#include "apps/step/step_options.h"
#include "collectives/buckets.h"
#include "collectives/shard_sum.h"
#include "collectives/world.h"
#include "net/clip.h"
#include "net/loss_scale.h"
#include "net/model.h"
#include "net/optimizer.h"
#include "src/base/timeline.h"
#include "src/data/loader.h"

namespace lockstep {

/// What a rank wants all ranks to do after this step; summed over the ranks with the gradients, so
/// that it costs no message.
struct Votes {
  bool stop = false;  ///< save a checkpoint and end
  bool save = false;  ///< save a checkpoint

  Votes operator|(Votes other) const { return {stop || other.stop, save || other.save}; }
};

/// Seconds since construction, of the computing thread; optimizer: of whichever thread ran it.
struct StepTimes {
  double forward = 0, backward = 0, optimizer = 0, exposed = 0, loader = 0;

  StepTimes operator-(const StepTimes& o) const {
    return {forward - o.forward, backward - o.backward, optimizer - o.optimizer,
            exposed - o.exposed, loader - o.loader};
  }
};

/// TrainingStep::statistics() where nobody asks for --sync-bn.
inline constexpr const char* kOfEachShard = "each shard";

/// What a step is put together from.
struct StepParts {
  std::unique_ptr<Model> model;  ///< for training, plan.shard_batch samples at a time
  std::unique_ptr<Optimizer> optimizer;
  std::vector<Range> buckets;        ///< of the model's layout, in arena order
  double bucket_mb = 0;              ///< that they were cut to
  std::unique_ptr<Reducer> reducer;  ///< for layout().count elements
  Policy policy = Policy::wait;
  /// Where shards train together: the model has as many lanes. Null: each is by itself.
  std::unique_ptr<ShardsTogether> together = nullptr;
  /// Null: each rank works out all of an optimizer's step.
  std::unique_ptr<SharedWork> shared_work = nullptr;
};

/// What a reducer of `count` gradients in these buckets is made for, by `options`. Collective.
ReducerSpec reducer_spec(const Comm& comm, Device& device, const StepOptions& options,
                         std::int64_t count, const std::vector<Range>& buckets);

/// The same for what layers sum over all shards, in these places_of_sums(): so few numbers that a
/// single thread block of NCCL sums them, and leaves the others to the layers; in fp32 on any wire.
ReducerSpec statistics_spec(const Comm& comm, Device& device, const StepOptions& options,
                            const std::vector<Range>& places);

class TrainingStep;

/// What `step` reads: the training samples of a run, as `options` want them.
LoaderSpec loader_spec(const StepOptions& options, const RunPlan& plan, const TrainingStep& step);

/// Collective: all ranks give the same arguments. The parts that `options` name. Throws
/// AgreedError.
StepParts make_step_parts(const World& world, Device& device, const ModelEntry& entry,
                          const Dataset& dataset, const StepOptions& options, const RunPlan& plan);

class TrainingStep {
 public:
  /// Initial weights are those of plan.seed, the same on all ranks. Of `options` the average's
  /// decay, the weight decay and whether steps may be graphs count. `record` is told what this rank
  /// does, and so is `timeline`, if any, which outlives the step; of a device that works later,
  /// when the work was given.
  TrainingStep(StepParts parts, Device& device, Record& record, const StepOptions& options,
               const RunPlan& plan, Timeline* timeline = nullptr);

  ~TrainingStep();

  /// Collective. Gives step number `step` (0 is the first of the run) on the next own_shards
  /// batches of `loader`; its totals tell the penalty if `wants_penalty`. On a device that works
  /// later it is not done by then: between two calls all that take() has is to be taken.
  void give(Loader& loader, std::int64_t step, float rate, Votes votes, bool wants_penalty = false);
  /// The totals of the oldest step that was given and not taken, once DeviceTraits::run_ahead
  /// others have been given after it, or `all`: blocks until it is done. Steps are thus taken after
  /// the same number of others on all ranks.
  std::optional<StepTotals> take(bool all = false);
  /// give(), and all totals taken but the last, which are returned: the step is done.
  StepTotals run(Loader& loader, std::int64_t step, float rate, Votes votes);

  /// Local, when all steps are taken: the mean loss of its last batch under the weights as they are
  /// now. Changes nothing that training reads.
  double loss_now();

  const Model& model() const { return *model_; }
  const Layout& layout() const { return model_->layout(); }
  const Optimizer& optimizer() const { return *optimizer_; }
  const Reducer& reducer() const { return *reducer_; }
  Policy policy() const { return policy_; }
  /// Own shards that are under way side by side: the loader holds a batch for each of them.
  int lanes() const { return together_ ? together_->shards() : 1; }
  /// Whether layers have sums over all shards that train together.
  bool together() const { return together_ != nullptr; }
  /// Of what the statistics of layers are: "the global batch"; empty where no layer has any.
  std::string statistics() const;
  const std::vector<Range>& buckets() const { return buckets_->buckets(); }
  double bucket_mb() const { return bucket_mb_; }

  /// The device's arenas.
  const TrainingState& state() const { return state_; }
  /// The arenas that make up the state of the run as the host sees them when all that was given is
  /// done, and their names in checkpoints; valid until the next step. The average is the last, if
  /// there is one.
  std::vector<Section> sections();
  /// What the host has written to sections() is the state of the run, with `loss_scale` where it is
  /// dynamic.
  void restored(const LossScale& loss_scale);
  /// ReducerTraits::kept_back, in units of loss_scale().scale, the host's to read and write when
  /// all steps are taken; null: none is.
  float* kept_back();
  bool keeps_back() const { return reducer_->traits().kept_back != nullptr; }
  /// Where the scale of the loss stood after the last step that was taken.
  const LossScale& loss_scale() const { return loss_scale_; }
  /// Of all sections: what a checkpoint holds, and writing one needs for a moment.
  std::size_t saved_bytes() const;
  /// The weights that evaluation uses.
  float* evaluated() { return state_.average ? state_.average : state_.parameters; }
  /// Mean gradients of the step before as the host sees them, until the next step; an infinity or
  /// a NaN may stand where the step was skipped.
  const float* gradients();

  StepTimes times() const;
  /// What takes how many bytes on this rank.
  std::vector<std::pair<std::string, std::size_t>> memory() const;

 private:
  struct Answer {
    float mail[Layout::kMail];  ///< the sum of all
    double penalty;
    LossScale loss_scale;
  };
  /// What the host and the device tell each other of one step.
  struct Slot {
    Memory input;   ///< a StepInput, the host's to write
    Memory answer;  ///< an Answer, the host's to read
    std::unique_ptr<Event> done;
  };

  Slot& slot_of(std::int64_t given) {
    return slots_[static_cast<std::size_t>(given) % slots_.size()];
  }
  /// Of the step that was given after so many others: waits until it is done.
  const Answer& answer_of(std::int64_t given);
  /// Once the last step that was given is known to be skipped or not.
  void settle_kept_back();
  StepInput input_of(std::int64_t step, float rate, Votes votes) const;
  /// Where `skipped` steps before it were skipped.
  UpdateRates rates_at(std::int64_t step, float rate, std::int64_t skipped) const;
  void give_work(Loader& loader);
  void compute_shards(Loader& loader, int first);
  void forward(int shard, int lane);
  void written(int shard, int lane, Range range);
  TrainingBatch batch_of(int shard) const;
  Stream& stream_of(int lane) const;
  void on_reduced(Range range);
  void update_range(Range range);
  void set_loss_scale(const LossScale& scale);
  /// Null: there is no timeline.
  Lane* compute_lane() const { return timeline_ ? &timeline_->compute : nullptr; }
  Lane* communication_lane() const { return timeline_ ? &timeline_->communication : nullptr; }
  /// No update begins before all gradients are summed.
  bool waits_for_all() const { return clip_ || scaling_.dynamic || optimizer_->layerwise(); }
  Score* score() { return static_cast<Score*>(block_.at(score_)); }
  void give_penalty(Answer* answer);
  StepInput* now() const { return static_cast<StepInput*>(block_.at(now_)); }

  Device& device_;
  Record& record_;
  Timeline* timeline_;
  const RunPlan& plan_;
  float ema_, weight_decay_, smoothing_;
  LossScaling scaling_;
  std::unique_ptr<Stream> stream_;  ///< of the computing thread
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<SharedWork> shared_work_;
  std::unique_ptr<Reducer> reducer_;
  float* gradients_ = nullptr;  ///< the reducer's
  Memory arenas_;               ///< parameters, slots, average, factors
  Memory layer_scratch_;        ///< of a layerwise optimizer
  TrainingState state_;
  std::unique_ptr<GradientClip> clip_;  ///< null: gradients are as long as they are
  std::unique_ptr<LossScaler> scaler_;  ///< null: the loss is as it is
  LossScale loss_scale_;
  std::vector<float> unscaled_;  ///< of gradients()
  /// What was kept back before the last step that was given; empty where the scale stays.
  std::vector<float> kept_before_;
  bool settled_ = true;  ///< and what is kept back follows the scale after that step
  std::unique_ptr<ShardSum> shard_sum_;
  std::unique_ptr<ShardsTogether> together_;
  Policy policy_;
  double bucket_mb_;
  bool graphs_;  ///< steps may be repeated as one
  HostCopy host_;
  /// Of the device: the score of the shard, the step's input, the penalty and its parts; and their
  /// places.
  Arena block_;
  std::size_t score_ = 0, now_ = 0, penalty_ = 0;
  std::vector<Slot> slots_;             ///< of step number n since construction: n mod their number
  Memory score_now_;                    ///< a Score of loss_now(), the host's to read
  std::unique_ptr<Event> updated_;      ///< all updates of the step
  std::int64_t given_ = 0, taken_ = 0;  ///< steps since construction
  std::vector<Batch> batches_;          ///< by lane: of the shards under way, or the last
  StepTimes times_;                     ///< of the computing thread
  const std::thread::id computes_ = std::this_thread::get_id();
  std::atomic<std::int64_t> optimizer_ns_ = 0;  ///< of whichever thread runs on_reduced()
  double own_updates_ = 0;                      ///< seconds of it on the computing thread
  std::unique_ptr<GradientBuckets> buckets_;    ///< it may call back until it goes
  std::unique_ptr<Graph> graph_;                ///< the work of a step, where it is repeated
};

}  // namespace lockstep
