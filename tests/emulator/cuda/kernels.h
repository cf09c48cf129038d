// Kernels: how a launch of nvcc's host code finds the translated kernel and runs it.
//
// Each kernel has a host function, whose address stands for it. Static objects of nvcc's code pass
// the address and the mangled name to __cudaRegisterFunction. Static objects of the translated code
// pass the same name with a KnownKernel. A launch copies its arguments into a block of parameters
// at once, because the caller's variables end, and so each repetition in a graph gets the same
// ones.
#pragma once

#include <driver_types.h>
#include <vector_types.h>

#include <cstddef>

namespace emulator {

/// A launch of the kernel whose host function is `function`.
cudaError_t launch_kernel(const void* function, dim3 grid, dim3 block, void** arguments,
                          std::size_t shared_bytes, cudaStream_t stream);
/// Whether `function` is the host function of a kernel.
bool is_kernel(const void* function);

}  // namespace emulator
