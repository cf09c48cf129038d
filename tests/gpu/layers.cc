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
  const LayerCase& c = GetParam();
  Outcome o = run_case(c, Type::f32, &gpu(), false);
  const double tolerance = std::max(c.tolerance, kFp32);
  EXPECT_LT(distance(o.y, c.reference(o.in)), tolerance) << "forward";
  const auto compare = [&](const char* what, const Values& gradient, Values& values) {
    const std::size_t stride = values.size() / 150 + 1;
    EXPECT_LT(distance(every(gradient, stride),
                       numeric_gradient(c.reference, o.in, values, o.upstream, stride)),
              tolerance)
        << what;
  };
  compare("dx", o.dx, o.in.x);
  for (std::size_t p = 0; p < o.names.size(); ++p) {
    if (o.trained[p]) compare(o.names[p].c_str(), o.gradients[p], o.in.parameters[p]);
  }
}

void check_narrow_on_gpu(const LayerCase& c, Type type, double tolerance) {
  const Outcome narrow = run_case(c, type, &gpu(), true),
                wide = run_case(c, Type::f32, make_cpu_device(1).get(), true);
  EXPECT_LT(distance(narrow.y, wide.y), tolerance);
  EXPECT_LT(distance(narrow.dx, wide.dx), tolerance);
  for (std::size_t p = 0; p < wide.names.size(); ++p) {
    EXPECT_LT(distance(narrow.gradients[p], wide.gradients[p]), tolerance) << wide.names[p];
  }
}

TEST_P(EveryLayer, OnAGpuBfloat16IsWithinItsRounding) {
  check_narrow_on_gpu(GetParam(), Type::bf16, 2 * GetParam().narrow);
}

TEST_P(EveryLayer, OnAGpuHalfIsWithinItsRounding) {
  check_narrow_on_gpu(GetParam(), Type::f16, GetParam().narrow / 4);
}

}  // namespace
}  // namespace lockstep
