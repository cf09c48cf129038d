// Every layer on a GPU against references in double and against the CPU, with the cases of
// tests/unit/layers.cc.
#include "tests/unit/layers.cc"

#include "src/device/cuda/device.h"

namespace lockstep {
namespace {

/// Wider than on the CPU: kernels may add in any order, and a tensor core takes 10 bits of fp32.
constexpr double kFp32 = 2e-3;

/// One for all tests: setting up a GPU takes about a second.
Device& gpu() {
  static const std::unique_ptr<Device> device = make_cuda_device({.threads = 1});
  return *device;
}

TEST_P(EveryLayer, OnAGpuGradientsMatchCentralDifferencesInDouble) {
  check_against_double(GetParam(), &gpu(), std::max(GetParam().tolerance, kFp32));
}

void check_narrow_on_gpu(const LayerCase& c, Type type, double tolerance) {
  expect_near(run_case(c, type, &gpu(), true), run_case(c, Type::f32, 1, true), tolerance);
}

TEST_P(EveryLayer, OnAGpuBfloat16IsWithinItsRounding) {
  check_narrow_on_gpu(GetParam(), Type::bf16, 2 * GetParam().narrow);
}

TEST_P(EveryLayer, OnAGpuHalfIsWithinItsRounding) {
  check_narrow_on_gpu(GetParam(), Type::f16, GetParam().narrow / 4);
}

}  // namespace
}  // namespace lockstep
