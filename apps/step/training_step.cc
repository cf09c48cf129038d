#include "apps/step/training_step.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "apps/step/kept_back.h"
#include "apps/step/work_of_ranks.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/reducers/measured_link.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

/// The parts that cut_buckets() does not mix: the layers. The mail is a part of the first one.
std::vector<Range> bucket_parts(const Layout& layout) {
  std::vector<Range> parts = layout.layers;
  parts.front() = {0, parts.front().end()};
  return parts;
}

/// "auto" may take what suits the link and these gradients. All that it may take adds in the
/// canonical order, so that no bit depends on it.
bool chooses_by_link(const Device& device, const StepOptions& options) {
  return options.ranks.reducer == "auto" && options.ranks.wire == Type::f32 &&
         device.traits().memory_is_host;
}

/// MiB. Collective.
double choose_buckets(int hosts, const Device& device, const StepOptions& options,
                      std::int64_t count, const std::function<Link()>& link) {
  if (options.ranks.bucket_mb > 0) return options.ranks.bucket_mb;
  if (hosts == 1 || !chooses_by_link(device, options)) return kDefaultBucketMb;
  const std::int64_t gradients = count * static_cast<std::int64_t>(sizeof(float));
  return static_cast<double>(bucket_bytes(hosts, link(), gradients)) * 0x1p-20;
}

/// How many hosts the ranks are on. Collective.
int count_hosts(const Comm& comm) {
  return static_cast<int>(comm.sum(static_cast<std::int64_t>(comm.node().rank() == 0)));
}

}  // namespace

ReducerSpec reducer_spec(const Comm& comm, Device& device, const StepOptions& options,
                         std::int64_t count, const std::vector<Range>& buckets) {
  return {.comm = comm.duplicate(),
          .device = device,
          .count = count,
          .buckets = buckets,
          .why = {},
          .deterministic = options.device.deterministic,
          .link = {},
          .canonical = options.schedule.shards_given,
          .timeout_seconds = options.ranks.timeout,
          .nccl_max_ctas = options.ranks.nccl_max_ctas,
          .wire = options.ranks.wire,
          .overflows = options.loss_scaling().on(),
          .exact = Layout::kMail};
}

ReducerSpec statistics_spec(const Comm& comm, Device& device, const StepOptions& options,
                            const std::vector<Range>& places) {
  ReducerSpec spec = reducer_spec(comm, device, options, places.back().end(), places);
  spec.nccl_max_ctas = 1;
  spec.one_by_one = true;
  spec.wire = Type::f32;
  return spec;
}

LoaderSpec loader_spec(const StepOptions& options, const RunPlan& plan, const TrainingStep& step) {
  return {.seed = plan.seed,
          .global_batch = plan.global_batch,
          .shards = plan.shards,
          .first_shard = plan.first_shard,
          .own_shards = plan.own_shards,
          .first_position = plan.start.samples,
          .type = step.model().input_type(),
          .held = step.lanes(),
          .mixing = options.data.mixing};
}

StepParts make_step_parts(const World& world, Device& device, const ModelEntry& entry,
                          const Dataset& dataset, const StepOptions& options, const RunPlan& plan) {
  StepParts parts;
  parts.model = std::make_unique<Model>(device, entry, dataset.sample_shape(), dataset.classes(),
                                        plan.shard_batch, options.model.precision, true);
  agree(world.comm(), [&] { parts.model->group(options.optimizer.groups); });
  parts.optimizer = make_optimizer(options.optimizer.name, options.optimizer.own);
  const Layout& layout = parts.model->layout();
  Record& record = world.flight_recorder().mine();
  std::optional<Link> link;
  // Collective. Measures at the first call.
  const auto measured = [&] {
    if (!link) {
      record.phase("measuring the link between hosts", options.ranks.timeout + 10);
      link = measure_link(world.comm(), world.comm().node());
      record.phase("making the model");
    }
    return *link;
  };
  parts.bucket_mb =
      choose_buckets(count_hosts(world.comm()), device, options, layout.count, measured);
  const auto bytes = static_cast<std::int64_t>(parts.bucket_mb * (1 << 20));
  parts.buckets = cut_buckets(bucket_parts(layout), bytes);
  const auto connect = [&](ReducerSpec spec) {
    // Whoever connects has a deadline of its own, and knows more to say than the watchdog.
    if (options.model.sync_bn && count_hosts(world.comm()) > 1 && chooses_by_link(device, options))
      measured();  // once
    record.phase("connecting the ranks", options.ranks.timeout + 10);
    spec.link = link;
    auto reducer = make_reducer(options.ranks.reducer, spec);
    record.phase("making the model");
    return reducer;
  };
  parts.reducer = connect(reducer_spec(world.comm(), device, options, layout.count, parts.buckets));
  parts.policy = choose_policy(options.ranks.progress, *parts.reducer, world.threads_allowed());
  if (device.traits().memory_is_host && world.comm().size() > 1)
    parts.shared_work = std::make_unique<WorkOfRanks>(world.comm().duplicate());
  if (!options.model.sync_bn) return parts;
  if (const std::vector<Range> places = places_of_sums(layout); !places.empty()) {
    agree(world.comm(), [&] {
      if (options.schedule.accumulate > 1 && plan.own_shards != options.schedule.accumulate) {
        fail_usage(
            "--sync-bn with --accumulate {} wants {} shards on each rank, and here are {}: start "
            "as many ranks as the run began with",
            options.schedule.accumulate, options.schedule.accumulate, plan.own_shards);
      }
      if (plan.lanes > 1 && !device.traits().memory_is_host) {
        fail_usage(
            "--sync-bn with {} shards on each rank is for CPU cores: use as many ranks as shards, "
            "or --device cpu",
            plan.lanes);
      }
      parts.model->make_lanes(plan.lanes);
    });
    parts.together = std::make_unique<ShardsTogether>(
        device, connect(statistics_spec(world.comm(), device, options, places)), places,
        world.comm().size(), plan.lanes, &record);
  }
  return parts;
}

TrainingStep::TrainingStep(StepParts parts, Device& device, Record& record,
                           const StepOptions& options, const RunPlan& plan, Timeline* timeline)
    : device_(device),
      record_(record),
      timeline_(timeline),
      plan_(plan),
      ema_(options.optimizer.ema),
      weight_decay_(options.optimizer.weight_decay),
      smoothing_(options.optimizer.label_smoothing),
      scaling_(options.loss_scaling()),
      stream_(device.stream()),
      model_(std::move(parts.model)),
      optimizer_(std::move(parts.optimizer)),
      shared_work_(std::move(parts.shared_work)),
      reducer_(std::move(parts.reducer)),
      gradients_(reducer_->gradients()),
      together_(std::move(parts.together)),
      policy_(parts.policy),
      bucket_mb_(parts.bucket_mb),
      graphs_(!options.device.no_graph),
      host_(device, model_->layout().count),
      score_now_(device.allocate(sizeof(Score), Place::host)),
      updated_(device.event()) {
  expect(device.traits().run_ahead <= Device::kMostAhead, "a device runs too far ahead");
  for (Stream* stream : {stream_.get(), &reducer_->stream()})
    stream->after_each([&record] { record.progress(); });
  const Layout& layout = model_->layout();
  shard_sum_ = std::make_unique<ShardSum>(device, gradients_, layout.count, plan.own_shards);
  buckets_ = std::make_unique<GradientBuckets>(
      *reducer_, std::move(parts.buckets), policy_, [this](int, Range range) { on_reduced(range); },
      &record, communication_lane());

  if (options.optimizer.clip_norm > 0)
    clip_ = std::make_unique<GradientClip>(device, layout, options.optimizer.clip_norm);
  if (scaling_.on()) {
    scaler_ = std::make_unique<LossScaler>(device, layout, scaling_);
    set_loss_scale({.scale = scaling_.scale, .last = scaling_.scale});
  }
  if (scaling_.dynamic && reducer_->traits().kept_back) kept_before_.resize(layout.count);
  const std::size_t slots = optimizer_->slots().size(),
                    count = static_cast<std::size_t>(layout.count);
  const std::vector<float> decays = factors(layout, weight_decay_);
  arenas_ = device.allocate(((1 + slots + (ema_ > 0)) * count + decays.size()) * sizeof(float),
                            Place::device);
  optimizer_->plan(device, layout);
  if (optimizer_->layerwise()) {
    layer_scratch_ = device.allocate(sizeof(LayerScratch), Place::device);
    state_.scratch = reinterpret_cast<LayerScratch*>(layer_scratch_.get());
  }
  float* next = reinterpret_cast<float*>(arenas_.get());
  const auto take = [&next, count] { return std::exchange(next, next + count); };
  state_.parameters = take();
  for (std::size_t slot = 0; slot < slots; ++slot) state_.slots.push_back(take());
  if (ema_ > 0) state_.average = take();
  state_.factors = next;
  state_.gradients = gradients_;
  state_.shared = shared_work_.get();
  const Memory host_decays = device.allocate(decays.size() * sizeof(float), Place::host);
  std::memcpy(host_decays.get(), decays.data(), decays.size() * sizeof(float));
  device.copy(*stream_, next, host_decays.get(), decays.size() * sizeof(float));
  model_->bind(state_.parameters, gradients_);
  initialize(layout, plan.seed, host_.read(*stream_, state_.parameters));
  host_.write(*stream_, state_.parameters);
  if (state_.average)
    device.copy(*stream_, state_.average, state_.parameters, count * sizeof(float));

  score_ = block_.reserve(sizeof(Score));
  now_ = block_.reserve(sizeof(StepInput));
  penalty_ = block_.reserve((1 + penalty_parts(layout)) * sizeof(double));
  block_.allocate(device);
  for (int slot = 0; slot <= device.traits().run_ahead; ++slot) {
    slots_.push_back({device.allocate(sizeof(StepInput), Place::host),
                      device.allocate(sizeof(Answer), Place::host), device.event()});
  }
  stream_->synchronize();
}

TrainingStep::~TrainingStep() {
  buckets_.reset();  // whose thread gives work too
  try {              // nothing goes before the work on it is done
    stream_->synchronize();
    reducer_->stream().synchronize();
  } catch (...) {  // whoever took the totals has met it
  }
}

StepTotals TrainingStep::run(Loader& loader, std::int64_t step, float rate, Votes votes) {
  give(loader, step, rate, votes);
  std::optional<StepTotals> last;
  while (const auto totals = take(true)) last = totals;
  return *last;
}

void TrainingStep::give(Loader& loader, std::int64_t step, float rate, Votes votes,
                        bool wants_penalty) {
  expect(given_ - taken_ < static_cast<std::int64_t>(slots_.size()),
         "a step was given before the totals of an older one were taken");
  record_.step(step + 1);
  const TimedSpan span(compute_lane(), "step", step + 1);
  settle_kept_back();
  std::copy_n(reducer_->traits().kept_back, kept_before_.size(), kept_before_.begin());
  settled_ = kept_before_.empty();
  Slot& slot = slot_of(given_);
  *reinterpret_cast<StepInput*>(slot.input.get()) = input_of(step, rate, votes);
  device_.copy(*stream_, now(), slot.input.get(), sizeof(StepInput));
  auto* answer = reinterpret_cast<Answer*>(slot.answer.get());
  answer->penalty = 0;
  if (wants_penalty && optimizer_->decay() == Decay::coupled) give_penalty(answer);
  record_.phase("loading");
  const double waited = loader.waited_seconds();
  loader.begin_step(*stream_);
  // The first two steps are given as they are, for whatever is done only once; all later ones are
  // the third again.
  const bool repeats = graphs_ && given_ >= 2 && reducer_->traits().in_stream;
  if (repeats && !graph_) graph_ = device_.capture(*stream_, [&] { give_work(loader); });
  if (graph_) {
    graph_->launch(*stream_);
  } else {
    give_work(loader);
  }
  device_.copy(*stream_, answer->mail, gradients_, sizeof answer->mail);
  if (scaler_)
    device_.copy(*stream_, &answer->loss_scale, scaler_->state(), sizeof answer->loss_scale);
  slot.done->record(*stream_);
  times_.loader += loader.waited_seconds() - waited;
  ++given_;
}

StepInput TrainingStep::input_of(std::int64_t step, float rate, Votes votes) const {
  StepInput input;
  input.rates = rates_at(step, rate, loss_scale_.skipped);
  input.by_skips.skipped = loss_scale_.skipped;
  for (std::int64_t more = 0; scaling_.dynamic && more <= given_ - taken_; ++more)
    input.by_skips.rates[more] = rates_at(step, rate, loss_scale_.skipped + more);
  input.stop = votes.stop ? 1.0f : 0.0f;
  input.save = votes.save ? 1.0f : 0.0f;
  input.first_position = plan_.start.samples + (step - plan_.start.step) * plan_.global_batch;
  return input;
}

/// A step that is skipped has been none for the optimizer and for the average, which count their
/// own; its samples are gone, so that learning rates, which go by samples, move on.
UpdateRates TrainingStep::rates_at(std::int64_t step, float rate, std::int64_t skipped) const {
  const std::int64_t counted = step - skipped;
  UpdateRates rates{.rate = rate,
                    .average_decay = average_decay(ema_, counted),
                    .corrections = optimizer_->corrections(counted),
                    .scale = 1 / scaling_.scale};
  const double epoch = plan_.epoch_at(step);
  for (std::size_t n = 0; n < layout().epochs.size(); ++n) {
    const double end = layout().epochs[n];
    const double own = epoch < end ? learning_rate(plan_.rate, epoch, end) : 0;
    rates.shares[n + 1] = rate > 0 ? static_cast<float>(own / rate) : 0.0f;
  }
  return rates;
}

std::optional<StepTotals> TrainingStep::take(bool all) {
  const std::int64_t behind = given_ - taken_;
  if (behind == 0 || (behind <= device_.traits().run_ahead && !all)) return std::nullopt;
  const Answer& answer = answer_of(taken_++);
  StepTotals totals = read_mail(answer.mail, plan_.global_batch);
  totals.penalty = answer.penalty;
  if (scaler_) totals.loss_scale = loss_scale_ = answer.loss_scale;
  return totals;
}

const TrainingStep::Answer& TrainingStep::answer_of(std::int64_t given) {
  const Slot& slot = slot_of(given);
  while (!slot.done->done()) {
    if (reducer_->traits().in_stream) reducer_->advance();  // throws errors nothing else reports
    if (together_) together_->look();
    sched_yield();
  }
  return *reinterpret_cast<const Answer*>(slot.answer.get());
}

void TrainingStep::settle_kept_back() {
  if (settled_) return;
  follow_scale(layout(), answer_of(given_ - 1).loss_scale, kept_before_,
               reducer_->traits().kept_back);
  settled_ = true;
}

float* TrainingStep::kept_back() {
  settle_kept_back();
  return reducer_->traits().kept_back;
}

void TrainingStep::give_penalty(Answer* answer) {
  auto* total = static_cast<double*>(block_.at(penalty_));
  lockstep::penalty(*stream_, layout(), state_.parameters, state_.factors, total + 1, total);
  device_.copy(*stream_, &answer->penalty, total, sizeof *total);
}

/// The work of a step, which nothing but its input makes another one.
void TrainingStep::give_work(Loader& loader) {
  for (int first = 0; first < plan_.own_shards; first += lanes()) compute_shards(loader, first);
  record_.phase("summing gradients");
  {
    const TimedSpan span(compute_lane(), "waiting for sums");
    buckets_->finish();
  }
  if (scaling_.dynamic)
    scaler_->give(reducer_->stream(), gradients_, &now()->by_skips, &now()->rates);
  if (clip_) clip_->give(reducer_->stream(), gradients_, &now()->rates);
  if (waits_for_all()) update_range({0, layout().count});
  // The one join of a step: the next begins when all updates are done, and the host waits for none.
  updated_->record(reducer_->stream());
  updated_->wait(*stream_);
}

/// The own shards from `first` on, one in each lane.
void TrainingStep::compute_shards(Loader& loader, int first) {
  record_.phase("loading");
  std::optional<TimedSpan> span;
  span.emplace(compute_lane(), "loading");
  batches_.clear();
  for (int lane = 0; lane < lanes(); ++lane)
    batches_.push_back(loader.batch(*stream_, first + lane, &now()->first_position));

  record_.phase("forward");
  span.emplace(compute_lane(), "forward");
  const StepTimes before = times();
  const double start = now_seconds();
  for (int lane = 0; lane < lanes(); ++lane) forward(first + lane, lane);
  if (together_) together_->run();
  const StepTimes between = times();
  const double updates = own_updates_, middle = now_seconds();
  times_.forward += middle - start - (between.exposed - before.exposed);

  record_.phase("backward");
  span.emplace(compute_lane(), "backward");
  for (int lane = 0; lane < lanes(); ++lane) {
    const auto ready = [this, lane, first](Range range) { written(first + lane, lane, range); };
    model_->backward(stream_of(lane), batches_[lane].images, ready, lane);
  }
  if (together_) together_->run();
  const StepTimes after = times();
  // What this thread updated is within that time, what the communication thread did beside it.
  times_.backward +=
      now_seconds() - middle - (after.exposed - between.exposed) - (own_updates_ - updates);
}

void TrainingStep::forward(int shard, int lane) {
  const Batch& batch = batches_[lane];
  Stream& stream = stream_of(lane);
  TrainingBatch part = batch_of(shard);
  if (together_) part.across = &together_->across(lane);
  const View logits = model_->forward(stream, batch.images, part, lane);
  softmax_cross_entropy(stream, logits, batch.labels, 1.0f / static_cast<float>(plan_.global_batch),
                        model_->logits_gradient(lane), score(), nullptr, smoothing_,
                        batch.other_labels, batch.weights, scaler_ ? scaler_->factor() : nullptr);
  write_mail(stream, score(), now(), plan_.global_batch, shard == plan_.own_shards - 1, gradients_);
  written(shard, lane, {0, Layout::kMail});
}

/// The work that writes the shard's gradients of `range` has been given.
void TrainingStep::written(int shard, int lane, Range range) {
  Stream& stream = stream_of(lane);
  if (shard < plan_.own_shards - 1) return shard_sum_->take(shard, range, stream);
  shard_sum_->finish(range, stream);
  const auto ready = [this, range] {
    buckets_->ready(range, *stream_);
    buckets_->advance();
    record_.progress();
  };
  together_ ? together_->then(lane, ready) : ready();
}

TrainingBatch TrainingStep::batch_of(int shard) const {
  return {plan_.seed, &now()->first_position, (plan_.first_shard + shard) * plan_.shard_batch,
          1 / static_cast<float>(plan_.shards)};
}

Stream& TrainingStep::stream_of(int lane) const {
  return together_ ? together_->stream(lane, *stream_) : *stream_;
}

double TrainingStep::loss_now() {
  const Batch& last = batches_.back();
  const View logits = model_->forward(*stream_, last.images, batch_of(plan_.own_shards - 1));
  softmax_cross_entropy(*stream_, logits, last.labels, 1, {}, score(), nullptr, smoothing_,
                        last.other_labels, last.weights);
  auto* seen = reinterpret_cast<Score*>(score_now_.get());
  device_.copy(*stream_, seen, score(), sizeof(Score));
  stream_->synchronize();
  const double loss = seen->loss();
  *seen = {};  // as every step finds it
  device_.copy(*stream_, score(), seen, sizeof(Score));
  stream_->synchronize();
  return loss;
}

void TrainingStep::on_reduced(Range range) {
  if (!waits_for_all()) update_range(range);
}

void TrainingStep::update_range(Range range) {
  const double start = now_seconds();
  const TimedSpan span(communication_lane(), "update");
  // (On the communication thread the stream has one core: the others are the backward pass's.)
  update(reducer_->stream(), layout(), range, *optimizer_, state_, &now()->rates);
  const double seconds = now_seconds() - start;
  optimizer_ns_ += static_cast<std::int64_t>(seconds * 1e9);
  if (std::this_thread::get_id() == computes_) own_updates_ += seconds;
}

std::string TrainingStep::statistics() const {
  if (places_of_sums(layout()).empty()) return {};
  if (!together_) return kOfEachShard;
  const int batches = plan_.own_shards / lanes();
  return batches == 1 ? "the global batch" : fmt::format("one of {} accumulated batches", batches);
}

std::vector<Section> TrainingStep::sections() {
  std::vector<Section> sections{{"parameters", host_.read(*stream_, state_.parameters)}};
  const std::vector<std::string> names = optimizer_->slots();
  for (std::size_t slot = 0; slot < names.size(); ++slot) {
    sections.push_back({"optimizer/" + names[slot], host_.read(*stream_, state_.slots[slot]),
                        /*trained_only=*/true});
  }
  if (state_.average) sections.push_back({"ema", host_.read(*stream_, state_.average)});
  return sections;
}

const float* TrainingStep::gradients() {
  const float* host = host_.read(*stream_, gradients_);
  if (!scaler_) return host;
  unscaled_.assign(host, host + layout().count);
  scale_trained(layout(), 1 / loss_scale_.last, unscaled_.data());
  return unscaled_.data();
}

void TrainingStep::set_loss_scale(const LossScale& scale) {
  loss_scale_ = scale;
  const Memory host = device_.allocate(sizeof scale, Place::host);
  std::memcpy(host.get(), &scale, sizeof scale);
  device_.copy(*stream_, scaler_->state(), host.get(), sizeof scale);
  stream_->synchronize();
}

void TrainingStep::restored(const LossScale& loss_scale) {
  LossScale scale = loss_scale;
  scale.scale = std::min(scale.scale, scaling_.highest);  // a checkpoint's without clipping
  if (scaling_.dynamic) set_loss_scale(scale);
  host_.write(*stream_, state_.parameters);
  for (float* slot : state_.slots) host_.write(*stream_, slot);
  if (state_.average) host_.write(*stream_, state_.average);
}

std::size_t TrainingStep::saved_bytes() const {
  const std::size_t arenas = 1 + state_.slots.size() + (state_.average != nullptr);
  return arenas * static_cast<std::size_t>(layout().count) * sizeof(float);
}

StepTimes TrainingStep::times() const {
  StepTimes times = times_;
  times.optimizer = static_cast<double>(optimizer_ns_) * 1e-9;
  times.exposed = buckets_->exposed_seconds() + (together_ ? together_->seconds() : 0);
  return times;
}

std::vector<std::pair<std::string, std::size_t>> TrainingStep::memory() const {
  const std::size_t arena = layout().count * sizeof(float);
  std::vector<std::pair<std::string, std::size_t>> parts{
      {"parameters", arena},
      {"gradients", reducer_->traits().bytes + shard_sum_->bytes() +
                        (together_ ? together_->bytes() : 0) + kept_before_.size() * sizeof(float)},
      {"optimizer", state_.slots.size() * arena + arena / Layout::kAlignment}};
  if (state_.average) parts.emplace_back("average", arena);
  parts.emplace_back("activations", model_->activation_bytes());
  parts.emplace_back("workspace", model_->workspace_bytes());
  return parts;
}

}  // namespace lockstep
