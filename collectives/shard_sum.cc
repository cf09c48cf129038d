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
