// The kernels of each() and each_row(). Only src/device/each.h includes this, and only for nvcc.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/base/round_up.h"
#include "src/device/cuda/runtime.h"

namespace lockstep {

/// The 32 threads of a warp, which share a row. All of them call every sum(), max() and min(), and
/// all get the same bits.
struct Warp {
  static constexpr int lanes = 32;
  int lane;

  template <class T>
  __device__ T sum(T value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      value += __shfl_xor_sync(~0u, value, distance);
    }
    return value;
  }
  template <class T>
  __device__ T max(T value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const T other = __shfl_xor_sync(~0u, value, distance);
      value = other > value ? other : value;
    }
    return value;
  }
  template <class T>
  __device__ T min(T value) const {
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
      const T other = __shfl_xor_sync(~0u, value, distance);
      value = other < value ? other : value;
    }
    return value;
  }
};

inline constexpr int kThreadsPerBlock = 256, kWarpsPerBlock = 4;

template <class Body>
__global__ void __launch_bounds__(kThreadsPerBlock)
    each_kernel(std::int64_t n, const __grid_constant__ Body body) {
  if constexpr (requires { body.idle(); }) {
    if (body.idle()) return;
  }
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    body(i);
  }
}

template <class Body>
__global__ void __launch_bounds__(kWarpsPerBlock* Warp::lanes)
    each_row_kernel(std::int64_t rows, const __grid_constant__ Body body) {
  if constexpr (requires { body.idle(); }) {
    if (body.idle()) return;
  }
  const Warp warp{static_cast<int>(threadIdx.x % Warp::lanes)};
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / Warp::lanes;
  for (std::int64_t row = first; row < rows; row += std::int64_t{gridDim.x} * kWarpsPerBlock) {
    body(row, warp);
  }
}

/// Blocks for `count` pieces of work, `per_block` each. Beyond the limit a block does several.
inline unsigned blocks_for(std::int64_t count, int per_block) {
  constexpr std::int64_t kMost = 1 << 20;
  return static_cast<unsigned>(std::min(ceil_div(count, per_block), kMost));
}

template <class Body>
void launch(CUstream_st* stream, std::int64_t n, const Body& body) {
  if (n <= 0) return;
  each_kernel<<<blocks_for(n, kThreadsPerBlock), kThreadsPerBlock, 0, stream>>>(n, body);
  check_launch();
}

template <class Body>
void launch_rows(CUstream_st* stream, std::int64_t rows, const Body& body) {
  if (rows <= 0) return;
  each_row_kernel<<<blocks_for(rows, kWarpsPerBlock), kWarpsPerBlock * Warp::lanes, 0, stream>>>(
      rows, body);
  check_launch();
}

}  // namespace lockstep
