#include "apps/step/dense_sum.h"

#include <utility>

#include "collectives/comm/flight_recorder.h"

namespace lockstep {
namespace {

/// Up to the roots that the reducer adds. A reducer that is not canonical adds one sum of each
/// rank.
std::unique_ptr<ShardSum> make_shard_sum(Device& device, Reducer& reducer, std::int64_t count,
                                         Range own, int all) {
  if (!reducer.traits().canonical) {
    own.begin = 0;
    all = static_cast<int>(own.count);
  }
  return std::make_unique<ShardSum>(device, rows_of(reducer), count, own, all);
}

}  // namespace

DenseSum::DenseSum(Device& device, Reducer& reducer, std::vector<Range> buckets, Policy policy,
                   std::int64_t count, Range own, int all, ShardSlots& slots, Stream& computing,
                   GradientBuckets::Reduced reduced, RankRecorder& recorder, Track* timeline)
    : device_(device),
      count_(count),
      shards_(own.count),
      slots_(slots),
      computing_(computing),
      reducer_(reducer),
      recorder_(recorder),
      shard_sum_(make_shard_sum(device, reducer, count, own, all)),
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

void DenseSum::share(const Shares& shares, Range own) {
  buckets_->between_steps([&] {
    reducer_.share(Roots::of(shares));
    shard_sum_ = make_shard_sum(device_, reducer_, count_, own, shares.shards());
  });
  shards_ = own.count;
}

void DenseSum::written(int shard, int slot, Range range) {
  Stream& stream = slots_.stream(slot, computing_);
  if (shard < shards_ - 1) return shard_sum_->add(shard, range, stream);
  shard_sum_->finish(range, stream);
  slots_.then(slot, [this, range] {
    buckets_->ready(range, computing_);
    buckets_->advance();
    recorder_.progress();
  });
}

}  // namespace lockstep
