// The kernels for AVX-512 of all server processors (F, BW, CD, DQ, VL).
#include "src/device/cpu/kernel_headers.h"

#ifdef __clang__
#pragma clang attribute push(                                                        \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl")
#endif
#define KERNELS avx512
#define KERNEL_LANES 16
#define KERNEL_BF16_PRODUCTS 0
#include "src/device/cpu/kernels_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
