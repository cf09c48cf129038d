// Local response normalisation on a GPU.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {
std::unique_ptr<ResponseNormPlan> make_cuda_response_norm(const ResponseNormSpec& spec);
}
