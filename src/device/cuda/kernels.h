// The kernels of each() and each_row(). Only src/device/each.h includes this, and only for nvcc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

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
/// Threads of a grid, at most: four waves of an H200, which has 132 x 2048 at a time. Beyond this a
/// thread does several pieces of work, because more blocks only cost their start.
inline constexpr std::int64_t kMostThreads = 1 << 20;

/// Elements of one call: Body::kWidth if the body has pack().
template <class Body>
constexpr int pack_width() {
  if constexpr (requires(const Body body) { body.pack(std::int64_t{}); }) {
    return Body::kWidth;
  } else {
    return 1;
  }
}

/// The first `packs` packs, then the elements after them.
template <class Body>
__global__ void __launch_bounds__(kThreadsPerBlock)
    each_kernel(std::int64_t n, std::int64_t packs, const __grid_constant__ Body body) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x,
                     first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if constexpr (pack_width<Body>() > 1) {
    for (std::int64_t i = first; i < packs; i += stride) body.pack(i * pack_width<Body>());
  }
  for (std::int64_t i = packs * pack_width<Body>() + first; i < n; i += stride) body(i);
}

/// A thread computes kWidth columns of a block of rows. Neighbours in a warp have neighbouring
/// columns, or those of the next block.
template <int kWidth, class Body>
__global__ void __launch_bounds__(kThreadsPerBlock)
    each_block_kernel(std::int64_t blocks, std::int64_t packs, const __grid_constant__ Body body) {
  const std::int64_t stride = std::int64_t{blockDim.x} * gridDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < blocks * packs;
       i += stride) {
    const std::int64_t block = quotient(i, packs);
    body.template operator()<kWidth>(block, (i - block * packs) * kWidth,
                                     std::integral_constant<int, kWidth>{});
  }
}

template <class Body>
__global__ void __launch_bounds__(kWarpsPerBlock* Warp::lanes)
    each_row_kernel(std::int64_t rows, const __grid_constant__ Body body) {
  const Warp warp{static_cast<int>(threadIdx.x % Warp::lanes)};
  const std::int64_t first = std::int64_t{blockIdx.x} * kWarpsPerBlock + threadIdx.x / Warp::lanes;
  for (std::int64_t row = first; row < rows; row += std::int64_t{gridDim.x} * kWarpsPerBlock) {
    body(row, warp);
  }
}

/// Blocks of `threads` for `count` pieces of work, `per_block` each.
inline unsigned blocks_for(std::int64_t count, int per_block, int threads) {
  return static_cast<unsigned>(std::min(ceil_div(count, per_block), kMostThreads / threads));
}

template <class Body>
void launch(CUstream_st* stream, std::int64_t n, const Body& body) {
  if (n <= 0) return;
  constexpr int kWidth = pack_width<Body>();
  std::int64_t packs = 0;
  if constexpr (kWidth > 1) {
    if (body.aligned()) packs = n / kWidth;
  }
  const std::int64_t work = std::max(packs, n - packs * kWidth);
  each_kernel<<<blocks_for(work, kThreadsPerBlock, kThreadsPerBlock), kThreadsPerBlock, 0,
                stream>>>(n, packs, body);
  check_launch();
}

template <class Body>
void launch_rows(CUstream_st* stream, std::int64_t rows, const Body& body) {
  if (rows <= 0) return;
  constexpr int kThreads = kWarpsPerBlock * Warp::lanes;
  each_row_kernel<<<blocks_for(rows, kWarpsPerBlock, kThreads), kThreads, 0, stream>>>(rows, body);
  check_launch();
}

template <int kWidth, class Body>
void launch_blocks_of(CUstream_st* stream, std::int64_t blocks, std::int64_t packs,
                      const Body& body) {
  if (blocks * packs <= 0) return;
  each_block_kernel<kWidth><<<blocks_for(blocks * packs, kThreadsPerBlock, kThreadsPerBlock),
                              kThreadsPerBlock, 0, stream>>>(blocks, packs, body);
  check_launch();
}

template <class Body>
void launch_blocks(CUstream_st* stream, std::int64_t blocks, std::int64_t columns,
                   const Body& body) {
  if (columns % Body::kWidth == 0 && body.aligned()) {
    return launch_blocks_of<Body::kWidth>(stream, blocks, columns / Body::kWidth, body);
  }
  launch_blocks_of<1>(stream, blocks, columns, body);
}

}  // namespace lockstep
