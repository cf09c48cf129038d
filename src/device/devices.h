// The registry of devices, devices.cc. A back end is one folder beside src/device/cpu and one line
// there. CMake decides which are built, and the registry holds only those.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/device/device.h"

namespace lockstep {

/// What a device is to be.
struct DeviceOptions {
  /// For host work; 0: one per core that this process may use.
  int threads = 0;
  /// Which of the ranks of this host asks: where there are several devices, each gets its own.
  int rank_on_host = 0;
  /// Two runs with the same input give the same bits, whatever that costs. One whose results this
  /// changes says so in Device::arithmetic().
  bool deterministic = false;
  /// fp32 products with 10 bits of mantissa, where a device gains by it.
  bool tf32 = false;
  /// How CPU cores convolve, one of convolutions() (src/device/cpu/convolution.h).
  std::string_view convolution = "auto";
  /// What CPU cores compute with, one of instruction_sets() (src/device/cpu/instruction_set.h).
  std::string_view isa = "auto";
};

struct DeviceEntry {
  static constexpr std::string_view kind = "device";

  std::string_view name;
  std::string_view about;
  /// "no CUDA device (reason)" where this process finds none, else empty.
  std::string (*absent)();
  /// Null for "auto". The one that this process is to use.
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

/// The registry: "auto" first, which apps/step/placement.h resolves over all ranks, and the best
/// last.
std::span<const DeviceEntry> devices();

}  // namespace lockstep
