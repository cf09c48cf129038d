// Max-pooling as bodies for src/each.h: for GPUs, and on the CPU the same bits as src/cpu/pool.cc.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep::cuda {
std::unique_ptr<MaxPoolPlan> make_max_pool(const MaxPoolSpec& spec);
}  // namespace lockstep::cuda
