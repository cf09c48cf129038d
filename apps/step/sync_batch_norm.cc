#include "apps/step/sync_batch_norm.h"

#include <algorithm>
#include <set>
#include <utility>

#include "collectives/comm/flight_recorder.h"
#include "collectives/sum.h"
#include "src/base/clock.h"

namespace lockstep {

std::vector<Range> buckets_of_statistics(const Layout& layout) {
  std::set<std::int64_t> lengths;
  for (const Parameter& parameter : layout.parameters) {
    if (parameter.trained()) continue;
    // Batch norm sums one number for each channel, or two at once. A layer with c channels has
    // statistics of length c.
    lengths.insert({parameter.shape.count(), 2 * parameter.shape.count()});
  }
  std::vector<Range> buckets;
  for (const std::int64_t length : lengths)
    buckets.push_back({buckets.empty() ? 0 : Layout::aligned(buckets.back().end()), length});
  return buckets;
}

/// The work of one of several shards, up to and between the sums over all shards.
class SyncBatchNorm::Queue : public Stream, public AcrossShards {
 public:
  Queue(Device& device, int shards_of_all, RankRecorder& recorder)
      : Stream(/*later=*/true), does_(device.stream()), shards_(shards_of_all) {
    does_->after_each([&recorder] { recorder.progress(); });
  }

  void synchronize() override { expect(next_ == items_.size(), "a queue was not run"); }
  int threads() const override { return does_->threads(); }
  int shards() const override { return shards_; }
  void sum(Stream&, float* values, std::int64_t count) override {
    items_.push_back({{}, values, count});
  }

  struct Item {
    std::function<void()> work;  ///< none: the sum
    float* values = nullptr;
    std::int64_t count = 0;
  };
  /// Works up to the next sum and returns it; null: all is done.
  const Item* run() {
    while (next_ < items_.size()) {
      const Item& item = items_[next_++];
      if (!item.work) return &item;
      does_->enqueue([&item] { item.work(); });
    }
    items_.clear();
    next_ = 0;
    return nullptr;
  }
  Stream& does() { return *does_; }

 private:
  void append(std::function<void()> work) override { items_.push_back({std::move(work)}); }

  std::unique_ptr<Stream> does_;  ///< of the thread that runs it
  int shards_;
  std::vector<Item> items_;
  std::size_t next_ = 0;  ///< to be done
};

SyncBatchNorm::SyncBatchNorm(Device& device, std::unique_ptr<Reducer> reducer,
                             std::vector<Range> buckets, Range own, int all, RankRecorder& recorder)
    : device_(device),
      reducer_(std::move(reducer)),
      buckets_(std::move(buckets)),
      summed_(device.event()),
      shards_(all),
      alone_(own.count == all),
      fold_(reducer_->traits().canonical ? Fold::of(single_shards(own), all)
                                         : Fold::of_shards(static_cast<int>(own.count))),
      recorder_(recorder) {
  expect(own.count == 1 || device.traits().memory_is_host, "queues are for memory of the host");
  // A single shard needs no queue: its work goes straight to the stream of the device.
  for (int shard = 0; own.count > 1 && shard < own.count; ++shard)
    queues_.push_back(std::make_unique<Queue>(device, all, recorder));
}

SyncBatchNorm::~SyncBatchNorm() = default;

int SyncBatchNorm::count() const { return std::max(1, static_cast<int>(queues_.size())); }

Stream* SyncBatchNorm::queue(int slot) { return queues_.empty() ? nullptr : queues_[slot].get(); }

AcrossShards* SyncBatchNorm::across(int slot) {
  if (queues_.empty()) return this;
  return queues_[slot].get();
}

void SyncBatchNorm::sum(Stream& stream, float* values, std::int64_t count) {
  if (alone_) return;
  const double began = now_seconds();
  const int bucket = bucket_of(count);
  const std::size_t bytes = count * sizeof(float);
  float* const at = reducer_->gradients() + buckets_[bucket].begin;
  device_.copy(stream, at, values, bytes);
  reduce(stream, bucket);
  device_.copy(stream, values, at, bytes);
  seconds_ += now_seconds() - began;
}

int SyncBatchNorm::bucket_of(std::int64_t count) const {
  const auto found = std::ranges::find(buckets_, count, &Range::count);
  expect(found != buckets_.end(), "a layer sums another length than a statistic's");
  return static_cast<int>(found - buckets_.begin());
}

/// Over the ranks: the rows of the bucket, which work in `stream` writes before and reads after it.
void SyncBatchNorm::reduce(Stream& stream, int bucket) {
  // The events order the two streams, and on a device that works later the host does not wait. A
  // reducer of the host moves messages only when it is called, so the rank finishes the sum here.
  reducer_->written(bucket, stream);
  reducer_->start(bucket);
  if (!reducer_->traits().in_stream) {
    recorder_.collective(true);
    reducer_->finish(bucket);
    recorder_.collective(false);
  }
  summed_->record(reducer_->stream());
  summed_->wait(stream);
}

void SyncBatchNorm::run() {
  for (;;) {
    // All shards go through the same layers, so their queues stop at the same sum. A difference is
    // a fault of a layer, and would pair values of different layers.
    std::vector<float*> parts;
    std::int64_t count = 0;
    for (const auto& queue : queues_) {
      const Queue::Item* item = queue->run();
      if (item == nullptr) continue;
      expect(parts.empty() || item->count == count, "shards do not ask for the same sums");
      parts.push_back(item->values);
      count = item->count;
    }
    if (parts.empty()) return;
    expect(parts.size() == queues_.size(), "shards do not ask for the same sums");
    if (alone_) {
      sum_rows(fold_, parts, parts, count);
      continue;
    }
    const double began = now_seconds();
    const int bucket = bucket_of(count);
    // The shards are added up to this rank's roots, which lie in the reducer's rows. The last row
    // gets the sum of all ranks, which goes back to each shard.
    std::vector<float*> rows = reducer_->traits().rows;
    for (float*& row : rows) row += buckets_[bucket].begin;
    sum_rows(fold_, parts, rows, count);
    reduce(queues_.front()->does(), bucket);
    for (float* part : parts) std::copy_n(rows.back(), count, part);
    seconds_ += now_seconds() - began;
  }
}

void SyncBatchNorm::rethrow_errors() {
  if (reducer_->traits().in_stream) reducer_->advance();
}

}  // namespace lockstep
