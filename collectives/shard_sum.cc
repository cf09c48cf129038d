// The shards of a rank are a fold (collectives/shares.h) whose top is gradients_. The gradients of
// a shard arrive there, and merge() adds the waiting sums to them. A root that is complete lies at
// the bottom of the stack and is never merged again. So the places of the roots come first in
// sums_, and only deeper stacks need memory.
#include "collectives/shard_sum.h"

#include <algorithm>

#include "src/base/error.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

struct AddSum {
  const float* from;
  float* sum;
  HOST_DEVICE void operator()(std::int64_t i) const { sum[i] = from[i] + sum[i]; }
};

}  // namespace

ShardSum::ShardSum(Device& device, std::span<float* const> roots, std::int64_t count, Range own,
                   int all)
    : device_(device), count_(count) {
  expect(count >= 0 && own.count > 0, "a rank adds at least one shard of gradients");
  fold_ = Fold::of(single_shards(own), all);
  expect(roots.size() == fold_.left.size(), "a rank has another number of roots");
  sums_.assign(roots.begin(), roots.end() - 1);
  gradients_ = roots.back();
  // Plays the fold once, to know the height of the stack before each shard.
  int sums = 0, most = 0;
  for (const int merges : fold_.merges) {
    below_.push_back(sums);
    most = std::max(most, sums);
    sums += 1 - merges;
  }
  while (static_cast<int>(sums_.size()) < most) {
    own_.push_back(device.allocate(count * sizeof(float), Place::device));
    sums_.push_back(reinterpret_cast<float*>(own_.back().get()));
  }
}

void ShardSum::add(int shard, Range range, Stream& stream) {
  merge(shard, range, stream);
  float* const sum = sums_[below_[shard + 1] - 1];
  device_.copy(stream, sum + range.begin, gradients_ + range.begin, range.count * sizeof(float));
}

void ShardSum::finish(Range range, Stream& stream) {
  merge(static_cast<int>(below_.size()) - 1, range, stream);
}

void ShardSum::merge(int shard, Range range, Stream& stream) {
  for (int i = 1; i <= fold_.merges[shard]; ++i) {
    const float* const sum = sums_[below_[shard] - i];
    each(stream, range.count, AddSum{sum + range.begin, gradients_ + range.begin});
  }
}

std::size_t ShardSum::bytes() const {
  return own_.size() * static_cast<std::size_t>(count_) * sizeof(float);
}

}  // namespace lockstep
