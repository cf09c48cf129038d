#include "apps/step/gradient_sync.h"

#include "collectives/comm/flight_recorder.h"

namespace lockstep {

GradientSync::GradientSync(StepParts& parts, SumSpec spec)
    : spec_(std::move(spec)),
      policy_(parts.policy),
      reducer_(std::move(parts.reducer)),
      sync_bn_(std::move(parts.sync_bn)),
      // ShardSum adds into the rows of the reducer, which is there by now.
      shard_sum_(make_shard_sum()),
      buckets_(std::make_unique<GradientBuckets>(*reducer_, std::move(parts.buckets), policy_,
                                                 spec_.reduced, &spec_.recorder, spec_.timeline)) {
  listeners_.resize(slots());
}

GradientSync::~GradientSync() {
  buckets_.reset();  // its thread enqueues work too
  for (Stream* stream : {&spec_.computing, &reducer_->stream()}) {
    try {
      stream->synchronize();
    } catch (...) {  // TrainingStep::collect() has thrown it before
    }
  }
}

/// Up to the roots that the reducer adds. A reducer that is not canonical adds one sum of each
/// rank.
std::unique_ptr<ShardSum> GradientSync::make_shard_sum() const {
  const RunPlan& plan = spec_.plan;
  const bool canonical = reducer_->traits().canonical;
  return std::make_unique<ShardSum>(spec_.device, reducer_->traits().rows, spec_.layout.count,
                                    canonical ? plan.own() : Range{0, plan.own_shards},
                                    canonical ? plan.shards : plan.own_shards);
}

GradientListener& GradientSync::of(int shard, int slot) {
  Listener& listener = listeners_[slot];
  listener.sync = this;
  listener.shard = shard;
  listener.slot = slot;
  return listener;
}

void GradientSync::written(int shard, int slot, Range range) {
  Stream& stream = stream_of(slot);
  if (shard < spec_.plan.own_shards - 1) return shard_sum_->add(shard, range, stream);
  shard_sum_->finish(range, stream);
  // The last shard completes the rows of this rank. Only now may the bucket start.
  const auto pass_on = [this, range] {
    buckets_->ready(range, spec_.computing);
    buckets_->advance();
    spec_.recorder.progress();
  };
  // With several slots the work of this layer has not run yet: run_slots() does it. So the queue
  // passes the range on when its turn comes.
  if (Stream* const later = queue(slot))
    later->enqueue(pass_on);
  else
    pass_on();
}

Stream& GradientSync::stream_of(int slot) {
  Stream* const own = queue(slot);
  return own ? *own : spec_.computing;
}

void GradientSync::share() {
  buckets_->between_steps([&] {
    // The rows of the reducer change, and ShardSum writes to them. So it is made again, after them.
    reducer_->share(Roots::of(spec_.plan.shares));
    shard_sum_ = make_shard_sum();
  });
}

void GradientSync::rethrow_errors() {
  if (sync_bn_) sync_bn_->rethrow_errors();
  // Such a reducer has no messages to move. The call only looks for errors.
  if (reducer_->traits().in_stream) reducer_->advance();
}

void GradientSync::abort() noexcept {
  if (sync_bn_) sync_bn_->abort();
  reducer_->abort();
}

std::size_t GradientSync::bytes() const {
  return reducer_->traits().bytes + shard_sum_->bytes() + (sync_bn_ ? sync_bn_->bytes() : 0);
}

std::vector<Section> GradientSync::sections() const {
  float* const residual = reducer_->traits().residual;
  if (residual == nullptr) return {};
  return {{"wire", residual}};
}

}  // namespace lockstep
