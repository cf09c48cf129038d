// One step, as the functions below come one after the other:
//
//   load      the batches of this rank's shards          Loader
//   forward   their logits and losses                    Model, net/loss.h
//   backward  their gradients, from the last layer on    Model
//   sum       over shards and ranks, in buckets          GradientSync, while backward computes
//   update    the weights of each bucket that is summed  StepUpdate, while others are summed
//   collect   the totals of the step, on the host        later, if the device runs ahead
#include "apps/step/training_step.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "collectives/comm/flight_recorder.h"
#include "src/base/check.h"
#include "src/base/clock.h"

namespace lockstep {

StepTotals TrainingStep::run(Loader& loader, std::int64_t step, float rate, Votes votes) {
  enqueue(loader, step, rate, votes);
  std::optional<StepTotals> last;
  while (const auto totals = collect(true)) last = totals;
  return *last;
}

void TrainingStep::enqueue(Loader& loader, std::int64_t step, float rate, Votes votes,
                           bool wants_penalty) {
  StepSlots::Slot& slot = slots_.next();
  recorder_.step(step + 1);
  const TimedSpan span(track(), "step", step + 1);
  StepInput& input = *slot.input();
  input.rates = update_->rates_at(plan_, step, rate);
  recorder_.phase("loading");
  const double waited = loader.waited_seconds();
  // Later steps are no concern of the last ones.
  const std::int64_t needed = std::min<std::int64_t>(1 + steps_ahead(), plan_.steps - step);
  // The votes of a step are read up to run_ahead steps later. So a rank votes before the first
  // batch that it cannot make.
  const bool fails = loader.failure(std::max<std::int64_t>(needed, 1)) != nullptr;
  input.stop = votes.stop || fails ? 1.0f : 0.0f;
  input.save = votes.save ? 1.0f : 0.0f;
  input.first_position = plan_.position_of(step);
  // The device may do this copy later. The slot keeps the input unchanged until the step is
  // collected.
  device_.copy(*stream_, now(), &input, sizeof input);
  StepAnswer* const answer = slot.answer();
  answer->penalty = 0;
  if (wants_penalty && optimizer_->decay() == Decay::coupled) enqueue_penalty(answer);
  loader.begin_step(*stream_);
  choose_model(step);
  // The first two steps of a model may do work that is done only once. The third is captured and
  // repeated. A graph contains only work of streams, so sums that the host moves exclude it.
  const bool repeats = graphs_ && slots_.count() >= 2 && reducer().traits().in_stream;
  or_abort([&] {
    if (repeats && !graph_) graph_ = device_.capture(*stream_, [&] { train(loader); });
    if (graph_) {
      graph_->launch(*stream_);
    } else {
      train(loader);
    }
  });
  device_.copy(*stream_, answer->header, sync_->gradients(), sizeof answer->header);
  slot.done->record(*stream_);
  times_.loader += loader.waited_seconds() - waited;
  slots_.enqueued();
}

/// For the size of the step's images.
void TrainingStep::choose_model(std::int64_t step) {
  const double epoch = plan_.epoch_at(step);
  if (!models_.changes(epoch)) return;
  // The device may still run steps of the old model, which go here with their graph. Their totals
  // stay in their slots until they are collected.
  if (slots_.count() > 0) wait_for(slots_.last());
  graph_.reset();
  models_.choose(epoch);
  slots_.restart();
}

/// Enqueues the work of a step, which differs from other steps only by its input. Each round takes
/// as many shards as there are slots.
void TrainingStep::train(Loader& loader) {
  for (int first = 0; first < plan_.own_shards; first += shards_at_once()) {
    load(loader, first);
    forward(first);
    backward(first);
  }
  finish_sums();
  finish_update();
}

void TrainingStep::load(Loader& loader, int first) {
  recorder_.phase("loading");
  const TimedSpan span(track(), "loading");
  batches_.clear();
  for (int slot = 0; slot < shards_at_once(); ++slot)
    // The position is read when the work runs. So a captured step draws the random numbers of its
    // own samples.
    batches_.push_back(loader.batch(*stream_, first + slot, &now()->first_position));
}

void TrainingStep::forward(int first) {
  timed("forward", times_.forward, [&] {
    for (int slot = 0; slot < shards_at_once(); ++slot) forward_shard(first + slot, slot);
    // With several slots the work so far only waits in their queues.
    sync_->run_slots();
  });
}

void TrainingStep::forward_shard(int shard, int slot) {
  const Batch& batch = batches_[slot];
  Stream& stream = sync_->stream_of(slot);
  TrainingBatch part = batch_of(shard);
  part.across = sync_->across(slot);
  const View logits = models_.forward(stream, batch.images, part, slot);
  LossSpec loss = loss_of(batch, logits);
  loss.gradient = models_.logits_gradient(slot);
  // Each sample counts 1 / global batch, so the sum over all shards and ranks is the mean gradient.
  // No division follows the all-reduce.
  loss.scale = 1.0f / static_cast<float>(plan_.global_batch);
  softmax_cross_entropy(stream, loss);
  // All shards of the rank share one score. So the header takes it over, and clears it, before the
  // next shard computes its loss.
  write_header(stream, score(), now(), plan_.global_batch, shard == plan_.own_shards - 1,
               sync_->gradients());
  sync_->written(shard, slot, {0, Layout::kHeader});
}

LossSpec TrainingStep::loss_of(const Batch& batch, View logits) const {
  LossSpec loss{logits, batch.labels, score()};
  loss.modifiers = loss_;
  static_cast<MixedLabels&>(loss.modifiers) = {batch.other_labels, batch.weights};
  return loss;
}

/// Each layer passes its gradient to the listener, so that buckets are summed and updated while
/// other layers compute.
void TrainingStep::backward(int first) {
  timed("backward", times_.backward, [&] {
    for (int slot = 0; slot < shards_at_once(); ++slot) {
      GradientListener& listener = sync_->of(first + slot, slot);
      models_.backward(sync_->stream_of(slot), batches_[slot].images, listener, slot);
    }
    sync_->run_slots();
  });
}

/// The sum of `bucket` is in order. GradientBuckets calls this on the thread that found it.
void TrainingStep::update(int bucket) { update_->reduced(bucket, now()); }

/// Blocks until the sums that backward did not hide are in order.
void TrainingStep::finish_sums() {
  recorder_.phase("summing gradients");
  const TimedSpan span(track(), "waiting for gradients");
  sync_->finish();
}

/// The next step begins when all updates are done; the host does not wait.
void TrainingStep::finish_update() {
  update_->finish(now());
  updated_->record(sync_->stream());
  updated_->wait(*stream_);
}

std::optional<StepTotals> TrainingStep::collect(bool all) {
  const StepSlots::Slot* const slot = slots_.collect(all);
  if (slot == nullptr) return std::nullopt;
  const bool waited = wait_for(*slot);
  const StepAnswer& answer = *slot->answer();
  StepTotals totals = read_header(answer.header, plan_.global_batch);
  totals.penalty = answer.penalty;
  totals.waited = waited;
  return totals;
}

/// Calls `work`, a phase of the computing thread. Adds its time to `seconds`, without the waits for
/// sums and the updates within it. Updates of the communication thread take none of that time.
template <class Work>
void TrainingStep::timed(const char* phase, double& seconds, Work work) {
  recorder_.phase(phase);
  const TimedSpan span(track(), phase);
  const double others = sync_->seconds() + update_->own_seconds(), start = now_seconds();
  work();
  seconds += now_seconds() - start - (sync_->seconds() + update_->own_seconds() - others);
}

/// Calls `work`. If it throws, ends all sums, which else may wait for other ranks for ever. The
/// graph goes first: NCCL does not end while one contains a sum.
template <class Work>
void TrainingStep::or_abort(Work work) {
  try {
    work();
  } catch (...) {
    graph_.reset();
    sync_->abort();
    throw;
  }
}

/// Returns whether the step was not done before.
bool TrainingStep::wait_for(const StepSlots::Slot& slot) {
  bool waited = false;
  or_abort([&] {
    // A blocking wait would never return if another rank is dead, because its sum waits in the
    // stream. So the host polls, and asks the reducers for errors in between.
    for (; !slot.done->done(); waited = true) {
      sync_->rethrow_errors();
      sched_yield();
    }
  });
  return waited;
}

void TrainingStep::enqueue_penalty(StepAnswer* answer) {
  auto* total = static_cast<double*>(block_.at(penalty_));
  penalty(*stream_, layout(), state().parameters, state().decays, total + 1, total);
  device_.copy(*stream_, &answer->penalty, total, sizeof *total);
}

TrainingBatch TrainingStep::batch_of(int shard) const {
  return {plan_.seed, &now()->first_position, (plan_.first_shard + shard) * plan_.shard_batch,
          1 / static_cast<float>(plan_.shards)};
}

TrainingStep::TrainingStep(StepParts parts, Device& device, RankRecorder& recorder,
                           const StepOptions& options, const RunPlan& plan, Timeline* timeline)
    : device_(device),
      recorder_(recorder),
      timeline_(timeline),
      plan_(plan),
      loss_(options.optimizer.loss),
      graphs_(!options.device.no_graph),
      bucket_mb_(parts.bucket_mb),
      stream_(device.stream()),
      models_(device, std::move(parts.model), std::move(parts.small)),
      optimizer_(std::move(parts.optimizer)),
      shared_work_(std::move(parts.shared_work)),
      slots_(device),
      score_now_(device.allocate(sizeof(Score), Place::host)),
      updated_(device.event()) {
  // The reference stays valid when GradientSync takes the owner out of `parts` below. The gradients
  // belong to the reducer, so the memory and the models need it first.
  Reducer& reducer = *parts.reducer;
  // The watchdog sees each piece of work as progress, so a slow layer does not look like a hang.
  for (Stream* stream : {stream_.get(), &reducer.stream()})
    stream->after_each([&recorder] { recorder.progress(); });
  TrainingState given;
  given.gradients = reducer.gradients();
  given.shared = shared_work_.get();
  memory_ = std::make_unique<StepMemory>(device, *stream_, layout(), *optimizer_, options.optimizer,
                                         plan.seed, given);
  // Models read the weights and write the gradients in place. Neither arena ever moves, not even
  // with other shares, so a graph may contain their addresses.
  models_.bind(state().parameters, reducer.gradients());
  Track* const communication = timeline ? &timeline->communication : nullptr;
  update_ = std::make_unique<StepUpdate>(device, reducer, parts.buckets, *optimizer_, *memory_,
                                         options.optimizer, communication);
  score_ = block_.reserve(sizeof(Score));
  now_ = block_.reserve(sizeof(StepInput));
  penalty_ = block_.reserve((1 + penalty_parts(layout())) * sizeof(double));
  block_.allocate(device);
  set_class_weights();
  sync_ = std::make_unique<GradientSync>(
      parts, SumSpec{device, layout(), plan, *stream_,
                     [this](int bucket, Range) { update(bucket); }, recorder, communication});
  stream_->synchronize();
}

void TrainingStep::set_class_weights() {
  const std::vector<float>& weights = plan_.class_weights;
  if (weights.empty()) return;
  const std::size_t bytes = weights.size() * sizeof(float);
  const Memory host = device_.allocate(bytes, Place::host);
  std::memcpy(host.get(), weights.data(), bytes);
  class_weights_ = device_.allocate(bytes, Place::device);
  device_.copy(*stream_, class_weights_.get(), host.get(), bytes);
  // `host` goes at the end of this function, so the copy must be done by then.
  loss_.ClassWeights::weights = {class_weights_.get(), {std::ssize(weights)}, Type::f32};
  stream_->synchronize();
}

TrainingStep::~TrainingStep() {
  graph_.reset();  // before NCCL, which a graph refers to
  update_->synchronize();
  sync_.reset();  // blocks until all other work is done; the memory goes after that
}

void TrainingStep::share() {
  expect(slots_.under_way() == 0 && !graph_ && !sync_bn(), "the shares of a step cannot change");
  // They belong to the loader of the old shares, which the caller replaces.
  batches_.clear();
  sync_->share();
}

double TrainingStep::loss_now() {
  const Batch& last = batches_.back();
  const View logits = models_.forward(*stream_, last.images, batch_of(plan_.own_shards - 1));
  softmax_cross_entropy(*stream_, loss_of(last, logits));
  auto* seen = reinterpret_cast<Score*>(score_now_.get());
  device_.copy(*stream_, seen, score(), sizeof(Score));
  stream_->synchronize();
  const double loss = seen->loss();
  *seen = {};  // every step begins with a cleared score
  device_.copy(*stream_, score(), seen, sizeof(Score));
  stream_->synchronize();
  return loss;
}

std::string TrainingStep::statistics() const {
  if (buckets_of_statistics(layout()).empty()) return {};
  if (!sync_bn()) return "shard";
  const int batches = plan_.own_shards / shards_at_once();
  return batches == 1 ? "global_batch" : fmt::format("micro_batch_of_{}", batches);
}

StepTimes TrainingStep::times() const {
  StepTimes times = times_;
  times.optimizer = update_->seconds();
  times.exposed = sync_->seconds();
  return times;
}

std::vector<std::pair<std::string, std::size_t>> TrainingStep::memory() const {
  std::vector<std::pair<std::string, std::size_t>> parts{{"parameters", memory_->arena_bytes()},
                                                         {"gradients", sync_->bytes()},
                                                         {"optimizer", memory_->optimizer_bytes()}};
  if (state().average) parts.emplace_back("average", memory_->arena_bytes());
  parts.emplace_back("activations", models_.activation_bytes());
  parts.emplace_back("workspace", models_.workspace_bytes());
  return parts;
}

}  // namespace lockstep
