#include "collectives/shard_sum.h"

#include <string>

#include "src/base/error.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

struct AddLevel {
  const float* level;
  float* sum;
  HOST_DEVICE void operator()(std::int64_t i) const { sum[i] = level[i] + sum[i]; }
};

}  // namespace

ShardSum::ShardSum(Device& device, float* gradients, std::int64_t count, int shards)
    : device_(device),
      gradients_(gradients),
      count_(count),
      shards_(static_cast<std::uint32_t>(shards)) {
  if (count < 0 || shards < 1) {
    throw Error("ShardSum cannot be made for " + std::to_string(shards) + " shards of " +
                    std::to_string(count) + " elements. Pass at least 1 shard.",
                kExitUsage);
  }
  // One level per bit of shards - 1.
  for (std::uint32_t left = shards_ - 1; left > 0; left /= 2) {
    levels_.push_back(device.allocate(count * sizeof(float), Place::device));
  }
}

void ShardSum::add(int shard, Range range, Stream& stream) {
  std::size_t at = 0;
  for (; (shard >> at) & 1; ++at) add_level(at, range, stream);
  device_.copy(stream, level(at) + range.begin, gradients_ + range.begin,
               range.count * sizeof(float));
}

void ShardSum::finish(Range range, Stream& stream) {
  const std::uint32_t last = shards_ - 1;
  for (std::size_t at = 0; (last >> at) != 0; ++at) {
    if ((last >> at) & 1) add_level(at, range, stream);
  }
}

void ShardSum::add_level(std::size_t at, Range range, Stream& stream) {
  each(stream, range.count, AddLevel{level(at) + range.begin, gradients_ + range.begin});
}

std::size_t ShardSum::bytes() const {
  return levels_.size() * static_cast<std::size_t>(count_) * sizeof(float);
}

}  // namespace lockstep
