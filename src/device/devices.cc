#include "src/device/devices.h"

#include <array>

#include "src/base/check.h"
#include "src/base/table.h"

#ifdef LOCKSTEP_CUDA
#include "src/device/cuda/device.h"
#endif

namespace lockstep {
namespace {

std::string never_absent() { return {}; }

constexpr std::array kDevices{
    DeviceEntry{"auto", "the best device that all ranks have", never_absent, nullptr},
    DeviceEntry{"cpu", "the cores that a rank may use", never_absent,
                [](const DeviceOptions& options) {
                  return make_cpu_device(options.threads, options.convolution, options.isa,
                                         options.arithmetic);
                }},
#ifdef LOCKSTEP_CUDA
    DeviceEntry{"cuda", "one GPU per rank, with cuDNN", why_no_cuda_device, make_cuda_device},
#endif
};

}  // namespace

std::span<const DeviceEntry> devices() { return kDevices; }

const DeviceEntry& find_device(std::string_view name) {
  // The nearest name in the registry would be of no help in a build without the back end.
  const bool gpu = name == "cuda" || name == "gpu";
  if (gpu && kDevices.back().name != "cuda")
    fail_usage("--device {}: this build has no GPU back end. Pass --device cpu; see docs/gpu.md.",
               name);
  return find(devices(), name);
}

}  // namespace lockstep
