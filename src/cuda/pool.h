// Max-pooling on a GPU.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {
std::unique_ptr<MaxPoolPlan> make_cuda_max_pool(const MaxPoolSpec& spec);
}
