// Local response normalisation by row-wise kernels. It also runs on the CPU.
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep::cuda {
std::unique_ptr<ResponseNormPlan> make_response_norm(const ResponseNormSpec& spec);
}  // namespace lockstep::cuda
