// Sizes first, one allocation, then views.
#pragma once

#include <cstddef>

#include "src/base/round_up.h"
#include "src/device/device.h"

namespace lockstep {

/// Plans places in bytes, then allocates all of them at once. Not thread-safe; places live as long
/// as the Arena.
class Arena {
 public:
  /// Enough for the wide loads of every device.
  static constexpr std::size_t kAlignment = 256;
  static constexpr std::size_t aligned(std::size_t bytes) { return round_up(bytes, kAlignment); }

  /// Reserves `bytes` and returns their offset; the address exists only after allocate().
  std::size_t reserve(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += aligned(bytes);
    return offset;
  }
  void allocate(Device& device) { memory_ = device.allocate(bytes_, Place::device); }
  /// In place of allocate(): the places lie in the memory of `other`, which outlives this, if they
  /// fit. Returns whether they do.
  bool share(const Arena& other) {
    shares_ = bytes_ <= other.bytes_;
    if (shares_) memory_ = Memory(other.memory_.get(), [](std::byte*) {});
    return shares_;
  }

  void* at(std::size_t offset) const { return memory_.get() + offset; }
  View view(std::size_t offset, Shape shape, Type type) const { return {at(offset), shape, type}; }
  std::size_t bytes() const { return bytes_; }
  /// Without shared memory.
  std::size_t own_bytes() const { return shares_ ? 0 : bytes_; }

 private:
  std::size_t bytes_ = 0;
  Memory memory_;
  bool shares_ = false;
};

}  // namespace lockstep
