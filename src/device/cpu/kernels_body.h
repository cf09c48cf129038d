// The kernels of the instruction set KERNELS, with registers of KERNEL_LANES floats and, if
// KERNEL_BF16_PRODUCTS is 1, products of bf16: the whole of baseline.cc, avx2.cc, avx512.cc and
// avx512_bf16.cc.
//
// The *_body.h files include nothing. Those four files include src/device/cpu/kernel_headers.h
// before they enable their instruction set. A linker keeps one copy of a shared function, and that
// copy must run on any processor.
//
// Each file needs the ones above it.
// clang-format off
#include "src/device/cpu/vector_body.h"
#include "src/device/cpu/depthwise_body.h"
#include "src/device/cpu/few_channels_body.h"
#include "src/device/cpu/products_body.h"
#include "src/device/cpu/response_norm_body.h"
#include "src/device/cpu/winograd_tiles_body.h"
#include "src/device/cpu/winograd_body.h"
// clang-format on

namespace lockstep::KERNELS {

const Kernels& kernels() {
  static constexpr Kernels kKernels{kLanes,     kBf16Products,  make_winograd<2>,  make_winograd<4>,
                                    make_lines, make_depthwise, make_response_norm};
  return kKernels;
}

}  // namespace lockstep::KERNELS
