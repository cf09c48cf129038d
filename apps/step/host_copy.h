// HostCopy: a device's arenas as the host sees them, for whoever looks at weights: checkpoints,
// comparisons, histograms.
#pragma once

#include <cstdint>
#include <map>

#include "src/device/device.h"

namespace lockstep {

/// One thread. The arenas themselves where the host may touch the device's memory, else a copy of
/// each arena that was asked for.
class HostCopy {
 public:
  /// Of arenas of `count` floats each.
  HostCopy(Device& device, std::int64_t count);

  /// `arena` as it is when all that `stream` was given is done: blocks until then. Valid until the
  /// next call for this arena.
  float* read(Stream& stream, const float* arena);
  /// What the host has made of read(arena) becomes the arena's. Blocks.
  void write(Stream& stream, float* arena);
  std::size_t bytes() const;

 private:
  Device& device_;
  std::size_t arena_bytes_;
  std::map<const float*, Memory> copies_;
};

}  // namespace lockstep
