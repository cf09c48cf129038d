// The kernels of the instruction set called KERNELS, with registers of KERNEL_LANES floats and,
// where KERNEL_BF16_PRODUCTS is 1, products of bf16: the whole of baseline.cc, avx2.cc, avx512.cc
// and avx512_bf16.cc.
//
// These bodies include nothing. What they use of others stands in src/device/cpu/kernel_headers.h,
// which each of those files includes before it turns its instruction set on: functions that the
// whole program shares must run on any processor, whichever of their copies a linker keeps.
#include "src/device/cpu/vector_body.h"
// In this order.
#include "src/device/cpu/lines_body.h"
#include "src/device/cpu/products_body.h"
#include "src/device/cpu/response_norm_body.h"
#include "src/device/cpu/winograd_tiles_body.h"
#include "src/device/cpu/winograd_body.h"

namespace lockstep::KERNELS {

const Kernels& kernels() {
  static constexpr Kernels kKernels{kLanes,           kBf16Products, make_winograd<2>,
                                    make_winograd<4>, make_lines,    make_response_norm};
  return kKernels;
}

}  // namespace lockstep::KERNELS
