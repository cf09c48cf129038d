// The registry of devices. A back end is one folder beside src/device/cpu and one line in
// devices.cc. CMake decides which back ends are built, and the registry contains only those.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "src/device/device.h"

namespace lockstep {

struct DeviceOptions {
  /// Threads of host work; 0: one per core that this process may use.
  int threads = 0;
  /// This rank's number on the host. Ranks of a host get different devices as long as there are
  /// enough.
  int rank_on_host = 0;
  /// Runs with the same input are bitwise identical, at any cost. If this changes a device's
  /// results, Device::arithmetic() contains it.
  bool deterministic = false;
  /// fp32 products with 10 bits of mantissa if the device gains from them.
  bool tf32 = false;
  /// One of convolutions() (src/device/cpu/convolution.h).
  std::string convolution = "auto";
  /// One of instruction_sets() (src/device/cpu/instruction_set.h).
  std::string isa = "auto";
  /// One of arithmetics() (src/device/cpu/arithmetic.h).
  std::string arithmetic = "portable";
};

struct DeviceEntry {
  static constexpr std::string_view kind = "device";

  std::string_view name;
  std::string_view about;
  /// "no CUDA device (reason)": "auto" leaves out the reason, because a machine without a GPU is no
  /// fault. Or another sentence, without brackets, about a fault. Empty: this process finds one.
  std::string (*absent)();
  /// The device for this process. null: "auto".
  std::unique_ptr<Device> (*make)(const DeviceOptions& options);
};

/// "auto" is first, and apps/step/placement.h resolves it over all ranks. The best device is last.
std::span<const DeviceEntry> devices();
/// Throws the usage Error if there is none with this name. If this build has no GPUs, it names the
/// reason.
const DeviceEntry& find_device(std::string_view name);

}  // namespace lockstep
