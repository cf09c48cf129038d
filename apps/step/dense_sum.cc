#include "apps/step/dense_sum.h"

#include <utility>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {

DenseSum::DenseSum(Device& device, Reducer& reducer, std::vector<Range> buckets, Policy policy,
                   std::int64_t count, int shards, ShardSlots& slots, Stream& computing,
                   GradientBuckets::Reduced reduced, RankRecorder& recorder, Track* timeline)
    : shards_(shards),
      slots_(slots),
      computing_(computing),
      reducer_(reducer),
      recorder_(recorder),
      shard_sum_(device, reducer.gradients(), count, shards),
      buckets_(std::make_unique<GradientBuckets>(reducer, std::move(buckets), policy,
                                                 std::move(reduced), &recorder, timeline)) {}

DenseSum::~DenseSum() {
  buckets_.reset();  // its thread enqueues work too
  for (Stream* stream : {&computing_, &reducer_.stream()}) {
    try {
      stream->synchronize();
    } catch (...) {  // TrainingStep::collect() has thrown it before
    }
  }
}

void DenseSum::written(int shard, int slot, Range range) {
  Stream& stream = slots_.stream(slot, computing_);
  if (shard < shards_ - 1) return shard_sum_.add(shard, range, stream);
  shard_sum_.finish(range, stream);
  slots_.then(slot, [this, range] {
    buckets_->ready(range, computing_);
    buckets_->advance();
    recorder_.progress();
  });
}

}  // namespace lockstep
