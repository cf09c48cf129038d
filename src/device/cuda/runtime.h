// What the CUDA runtime answers, as Errors. For the .cc files of src/device/cuda and
// collectives/reducers/cuda, and for kernels; free of fmt.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace lockstep {

/// Throws Error unless `result` is success: "cudaMalloc: out of memory (cudaErrorMemoryAllocation)"
/// for `what` = "cudaMalloc". An error of a kernel given earlier may appear at any call.
void check_cuda(cudaError_t result, std::string_view what);

/// After a launch: throws where it could not be made.
void check_launch();

}  // namespace lockstep
