// Errors and handles of the CUDA runtime, for src/device/cuda, collectives/reducers/cuda and
// kernels. Free of fmt.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace lockstep {

/// Throws Error unless `result` is success: "cudaMalloc: out of memory (cudaErrorMemoryAllocation)"
/// for `what` = "cudaMalloc". The error of an earlier kernel may appear at any call.
void check_cuda(cudaError_t result, std::string_view what);

/// Throws Error if the last launch failed.
void check_launch();

/// A handle that `Free` releases; its errors are ignored.
template <class Handle, cudaError_t (*Free)(Handle)>
struct CudaHandle {
  explicit CudaHandle(Handle h = {}) : handle(h) {}
  ~CudaHandle() {
    if (handle) Free(handle);
  }
  CudaHandle(const CudaHandle&) = delete;
  CudaHandle& operator=(const CudaHandle&) = delete;
  Handle handle;
};

}  // namespace lockstep
