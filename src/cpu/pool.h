// Max-pooling on the CPU, vectorised over channels.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {
std::unique_ptr<MaxPoolPlan> make_cpu_max_pool(const MaxPoolSpec& spec);
}
