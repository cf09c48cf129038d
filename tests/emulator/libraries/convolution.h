// Convolutions in plain loops, for the stand-in of cuDNN (cudnn.cc). Inputs become fp32 once; the
// inner loops run over neighbours in memory, so that compilers vectorise them.
//
//   EMULATOR_RELU_OF_NAN   nan (default) or zero: the manual of cuDNN leaves it open
#pragma once

#include <cstddef>

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

/// The order of a sum. `split`: two sums in the workspace, then their sum. `random`: another order
/// in each run.
enum class Order { up, down, split, random };

/// Bytes of the workspace of Order::split.
std::size_t split_bytes(const Convolution& c);

/// Computes the pass, and multiplies its result by `factor`. `tf32`: inputs are rounded to 10 bits
/// of mantissa.
void convolve(const Convolution& c, Order order, bool tf32, float factor, const Tensors& t,
              void* workspace);

}  // namespace lockstep::cuda
