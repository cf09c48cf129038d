// The kernels of the set that the whole program is compiled for: those of the widest set that it
// assumes, or kernels of its own for older processors and for ARM.
#include "src/device/cpu/kernel_headers.h"

#if defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define KERNELS_OF_ANOTHER avx512_bf16
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#define KERNELS_OF_ANOTHER avx512
#elif defined(__AVX2__) && defined(__FMA__)
#define KERNELS_OF_ANOTHER avx2
#endif

#ifdef KERNELS_OF_ANOTHER
namespace lockstep::baseline {
const Kernels& kernels() { return KERNELS_OF_ANOTHER::kernels(); }
}  // namespace lockstep::baseline
#else
#define KERNELS baseline
#ifdef __aarch64__
#define KERNEL_LANES 4
#else
#define KERNEL_LANES 8
#endif
#define KERNEL_BF16_PRODUCTS 0
#include "src/device/cpu/kernels_body.h"
#endif
