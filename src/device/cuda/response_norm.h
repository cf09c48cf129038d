// Local response normalisation as bodies for src/device/each.h: for GPUs, and on the CPU as well.
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep::cuda {
std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec);
}  // namespace lockstep::cuda
