#include "src/devices.h"

#include <array>

#ifdef LOCKSTEP_CUDA
#include "src/cuda/device.h"
#endif

namespace lockstep {
namespace {

constexpr std::array kDevices{
    DeviceEntry{"auto", "the best that all ranks have", [] { return true; }, nullptr},
    DeviceEntry{"cpu", "the cores that a rank may use; oneDNN", [] { return true; },
                [](const DeviceOptions& options) {
                  return make_cpu_device(options.threads, options.convolution);
                }},
#ifdef LOCKSTEP_CUDA
    DeviceEntry{"cuda", "one GPU per rank; cuDNN", [] { return cuda_device_count() > 0; },
                make_cuda_device},
#endif
};

}  // namespace

std::span<const DeviceEntry> devices() { return kDevices; }

}  // namespace lockstep
