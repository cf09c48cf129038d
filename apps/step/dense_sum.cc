#include "apps/step/dense_sum.h"

#include <utility>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {
namespace {

/// Up to the roots that the reducer adds. A reducer that is not canonical adds one sum of each
/// rank.
std::unique_ptr<ShardSum> make_shard_sum(const SumSpec& spec, Reducer& reducer) {
  const RunPlan& plan = spec.plan;
  const bool canonical = reducer.traits().canonical;
  return std::make_unique<ShardSum>(spec.device, rows_of(reducer), spec.layout.count,
                                    canonical ? plan.own() : Range{0, plan.own_shards},
                                    canonical ? plan.shards : plan.own_shards);
}

}  // namespace

DenseSum::DenseSum(SumSpec spec, Reducer& reducer, std::vector<Range> buckets, Policy policy,
                   ShardSlots& slots)
    : spec_(std::move(spec)),
      slots_(slots),
      reducer_(reducer),
      shard_sum_(make_shard_sum(spec_, reducer)),
      buckets_(std::make_unique<GradientBuckets>(reducer, std::move(buckets), policy, spec_.reduced,
                                                 &spec_.recorder, spec_.timeline)) {}

DenseSum::~DenseSum() {
  buckets_.reset();  // its thread enqueues work too
  for (Stream* stream : {&spec_.computing, &reducer_.stream()}) {
    try {
      stream->synchronize();
    } catch (...) {  // TrainingStep::collect() has thrown it before
    }
  }
}

void DenseSum::share() {
  buckets_->between_steps([&] {
    reducer_.share(Roots::of(spec_.plan.shares));
    shard_sum_ = make_shard_sum(spec_, reducer_);
  });
}

void DenseSum::written(int shard, int slot, Range range) {
  Stream& stream = slots_.stream(slot, spec_.computing);
  if (shard < spec_.plan.own_shards - 1) return shard_sum_->add(shard, range, stream);
  shard_sum_->finish(range, stream);
  slots_.then(slot, [this, range] {
    buckets_->ready(range, spec_.computing);
    buckets_->advance();
    spec_.recorder.progress();
  });
}

}  // namespace lockstep
