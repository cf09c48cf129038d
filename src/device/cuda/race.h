// Plans against the clock, on a GPU.
#pragma once

#include "src/device/cuda/planner.h"
#include "src/device/device.h"

namespace lockstep::cuda {

/// The index of the fastest of `plans` for `work`, on random numbers in memory of `device` that is
/// given back at the end. Blocks until `stream` has done it; one that fails loses.
std::size_t race(Device& device, Stream& stream, const Convolution& work, const Plans& plans);

}  // namespace lockstep::cuda
