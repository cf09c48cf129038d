// The kernels of the instruction set KERNELS, with registers of KERNEL_LANES floats and, if
// KERNEL_BF16_PRODUCTS is 1, products of bf16: the whole of baseline.cc, avx2.cc, avx512.cc and
// avx512_bf16.cc. The last one has only Winograd's algorithm of its own.
//
// The *_body.h files include nothing. Those four files include src/device/cpu/kernel_headers.h
// before they enable their instruction set. A linker keeps one copy of a shared function, and that
// copy must run on any processor.
//
// Each file needs the ones above it.
// clang-format off
#include "src/device/cpu/vector_body.h"
#if !KERNEL_BF16_PRODUCTS
#include "src/device/cpu/gemm_body.h"
#include "src/device/cpu/portable_product_body.h"
#include "src/device/cpu/portable_windows_body.h"
#include "src/device/cpu/portable_in_place_body.h"
#include "src/device/cpu/portable_affine_body.h"
#include "src/device/cpu/depthwise_tiles_body.h"
#include "src/device/cpu/depthwise_body.h"
#include "src/device/cpu/few_channels_body.h"
#include "src/device/cpu/response_norm_body.h"
#endif
#include "src/device/cpu/products_body.h"
#include "src/device/cpu/winograd_tiles_body.h"
#include "src/device/cpu/winograd_body.h"

namespace lockstep::KERNELS {

#if KERNEL_BF16_PRODUCTS
const Kernels& kernels() {
  static const Kernels kKernels = [] {
    Kernels kernels = avx512::kernels();
    kernels.winograd2 = make_winograd<2>;
    kernels.winograd4 = make_winograd<4>;
    return kernels;
  }();
  return kKernels;
}
#else
const Kernels& kernels() {
  static constexpr Kernels kKernels{kLanes,
                                    make_winograd<2>,
                                    make_winograd<4>,
                                    make_lines,
                                    make_depthwise,
                                    make_response_norm,
                                    make_portable_convolution,
                                    make_portable_dense,
                                    make_portable_product};
  return kKernels;
}
#endif

}  // namespace lockstep::KERNELS
