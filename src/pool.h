// Max-pooling, one body for every back end.
#pragma once

#include <memory>

#include "src/device.h"

namespace lockstep {

std::unique_ptr<MaxPoolPlan> make_max_pool(const MaxPoolSpec& spec);

}  // namespace lockstep
