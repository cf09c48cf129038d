// The kernels for AVX-512 with products of bf16.
#include "src/device/cpu/kernel_headers.h"

#ifdef __clang__
#pragma clang attribute push(                                                                   \
    __attribute__((target("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16"))), \
    apply_to = function)
#else
#pragma GCC target("avx2,fma,avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx512bf16")
#endif
#define KERNELS avx512_bf16
#define KERNEL_LANES 16
#define KERNEL_BF16_PRODUCTS 1
#include "src/device/cpu/kernels_body.h"
#ifdef __clang__
#pragma clang attribute pop
#endif
