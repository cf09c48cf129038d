#include "src/device/cuda/runtime.h"

#include "src/base/check.h"

namespace lockstep {

void check_cuda(cudaError_t result, std::string_view what) {
  if (result == cudaSuccess) return;
  cudaGetLastError();  // else the next check would see it too
  fail("{}: {} ({})", what, cudaGetErrorString(result), cudaGetErrorName(result));
}

void check_launch() { check_cuda(cudaGetLastError(), "launch of a kernel"); }

}  // namespace lockstep
