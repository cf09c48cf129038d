// Convolutions in plain loops, for the stand-in of cuDNN (cudnn.cc). Inputs become fp32 once; the
// inner loops run over neighbours in memory, so that compilers vectorise them.
//
//   EMULATOR_RELU_OF_NAN   nan (default) or zero: the manual of cuDNN leaves it open
#pragma once

#include "src/device/cuda/plan.h"

namespace lockstep::cuda {

/// The order of a sum.
enum class Order { up, down };

/// Computes the pass. `tf32`: inputs are rounded to 10 bits of mantissa.
void convolve(const Convolution& c, Order order, bool tf32, const Tensors& t);

}  // namespace lockstep::cuda
