// The kernels for AVX2 with fused multiply-adds.
#include "src/device/cpu/kernel_headers.h"

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define KERNELS avx2
#define KERNEL_LANES 8
#define KERNEL_BF16_PRODUCTS 0
#include "src/device/cpu/kernels_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
