#include "apps/step/dense_sum.h"

#include <utility>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {

DenseSum::DenseSum(Device& device, Reducer& reducer, std::vector<Range> buckets, Policy policy,
                   std::int64_t count, int shards, Lanes& lanes, Stream& computing,
                   GradientBuckets::Reduced reduced, Record& record, Track* timeline)
    : shards_(shards),
      lanes_(lanes),
      computing_(computing),
      reducing_(reducer.stream()),
      record_(record),
      shard_sum_(device, reducer.gradients(), count, shards),
      buckets_(std::make_unique<GradientBuckets>(reducer, std::move(buckets), policy,
                                                 std::move(reduced), &record, timeline)) {}

DenseSum::~DenseSum() {
  buckets_.reset();  // its thread enqueues work too
  for (Stream* stream : {&computing_, &reducing_}) {
    try {
      stream->synchronize();
    } catch (...) {  // TrainingStep::collect() has thrown it before
    }
  }
}

void DenseSum::written(int shard, int lane, Range range) {
  Stream& stream = lanes_.stream(lane, computing_);
  if (shard < shards_ - 1) return shard_sum_.add(shard, range, stream);
  shard_sum_.finish(range, stream);
  lanes_.then(lane, [this, range] {
    buckets_->ready(range, computing_);
    buckets_->advance();
    record_.progress();
  });
}

}  // namespace lockstep
