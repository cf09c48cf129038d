// Arrays in memory of a device, written and read by way of pinned memory of the host.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/device/device.h"

namespace lockstep {

/// Copies `values` to `to`, memory of the device, after the work that is in `stream`.
template <class T>
void write_array(Device& device, Stream& stream, const std::vector<T>& values, void* to) {
  const std::size_t bytes = values.size() * sizeof(T);
  const Memory host = device.allocate(bytes, Place::host);
  std::copy(values.begin(), values.end(), reinterpret_cast<T*>(host.get()));
  device.copy(stream, to, host.get(), bytes);
  stream.synchronize();
}

/// The `count` values at `from`, memory of the device, after the work that is in `stream`.
template <class T>
std::vector<T> read_array(Device& device, Stream& stream, const void* from, std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  const Memory host = device.allocate(bytes, Place::host);
  device.copy(stream, host.get(), from, bytes);
  stream.synchronize();
  const auto* values = reinterpret_cast<const T*>(host.get());
  return {values, values + count};
}

/// An array of the device, filled from the host's.
template <class T>
class DeviceArray {
 public:
  DeviceArray(Device& device, Stream& stream, const std::vector<T>& values)
      : device_(device),
        stream_(stream),
        count_(std::ssize(values)),
        memory_(device.allocate(values.size() * sizeof(T), Place::device)) {
    write_array(device, stream, values, data());
  }
  T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  std::vector<T> values() const { return read_array<T>(device_, stream_, data(), count_); }

 private:
  Device& device_;
  Stream& stream_;
  std::int64_t count_;
  Memory memory_;
};

}  // namespace lockstep
