#include "src/devices.h"

#include <array>

namespace lockstep {
namespace {

constexpr std::array kDevices{
    DeviceEntry{"auto", "the best that all ranks have", [] { return true; }, nullptr},
    DeviceEntry{"cpu", "the cores that a rank may use; oneDNN", [] { return true; },
                [](const DeviceOptions& options) { return make_cpu_device(options.threads); }},
};

}  // namespace

std::span<const DeviceEntry> devices() { return kDevices; }

}  // namespace lockstep
