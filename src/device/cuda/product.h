// Products of matrices by a row-wise kernel. It also runs on the CPU.
#pragma once

#include <memory>

#include "src/device/device.h"

namespace lockstep::cuda {
std::unique_ptr<ProductPlan> make_product(const ProductSpec& spec);
}  // namespace lockstep::cuda
