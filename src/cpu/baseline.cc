// The kernels for what the whole program is compiled for.
#include "src/cpu/kernel_headers.h"

#define KERNELS baseline
#ifdef __AVX512F__
#define KERNEL_LANES 16
#else
#define KERNEL_LANES 8
#endif
#ifdef __AVX512BF16__
#define KERNEL_BF16_PRODUCTS 1
#else
#define KERNEL_BF16_PRODUCTS 0
#endif
#include "src/cpu/kernels_body.h"
