#include "apps/step/host_copy.h"

namespace lockstep {

HostCopy::HostCopy(Device& device, std::int64_t count)
    : device_(device), arena_bytes_(count * sizeof(float)) {}

float* HostCopy::read(Stream& stream, const float* arena) {
  if (device_.traits().memory_is_host) {
    stream.synchronize();
    return const_cast<float*>(arena);
  }
  Memory& copy = copies_[arena];
  if (!copy) copy = device_.allocate(arena_bytes_, Place::host);
  device_.copy(stream, copy.get(), arena, arena_bytes_);
  stream.synchronize();
  return reinterpret_cast<float*>(copy.get());
}

void HostCopy::write(Stream& stream, float* arena) {
  if (device_.traits().memory_is_host) return;
  device_.copy(stream, arena, copies_.at(arena).get(), arena_bytes_);
  stream.synchronize();
}

std::size_t HostCopy::bytes() const { return copies_.size() * arena_bytes_; }

}  // namespace lockstep
