// Which kernels of a device's libraries are fastest for a run: measured by one rank, for all.
#pragma once

#include <filesystem>
#include <functional>

#include "collectives/comm/comm.h"
#include "src/device/device.h"

namespace lockstep {

/// For the watchdog: seconds that tune() may take; 0 is its usual limit, where `device` measures
/// nothing.
inline double slow_tuning(const Device& device) { return device.tuning().empty() ? 0 : 1800; }

/// Collective. Where `device` can measure (Device::tune): has rank 0 measure all that `plan` plans,
/// but for what `before` says, the tuning() of the run that goes on, or else `folder` of earlier
/// runs, which is told of this one in turn; from now on all ranks with rank 0's device and library
/// plan with the same. Elsewhere nothing. An empty folder tells
/// nothing, and one that cannot be written is as good: it costs the next run the time. Throws
/// AgreedError where planning does.
void tune(const Comm& comm, Device& device, const std::filesystem::path& folder,
          const std::function<void()>& plan, const std::string& before = {});

}  // namespace lockstep
