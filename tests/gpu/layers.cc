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

TEST_P(EveryLayer, OnAGpuBfloat16IsWithinItsRounding) {
  const LayerCase& c = GetParam();
  expect_near(run_case(c, Type::bf16, &gpu(), true), run_case(c, Type::f32, 1, true), 2 * c.narrow);
}

/// A run that diverges must not look finite. Libraries may make 0 of NaN in a fused ReLU.
TEST(FusedRelu, OnAGpuKeepsNan) {
  constexpr std::int64_t kWidth = 6, kFilters = 8;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool dense : {true, false}) {
      const PlanInput input{.x = {2, kWidth, kWidth, kFilters}, .type = type};
      const ConvolutionSpec filters{
          .input = input, .filters = kFilters, .kernel = 3, .pad = 1, .relu = true};
      const DenseSpec matrix{.input = input, .features = kFilters, .relu = true};
      const auto plan = dense ? gpu().dense(matrix) : gpu().convolution(filters);
      SCOPED_TRACE(plan->implementation() + " in " + std::string(name_of(type)));
      const Shape of_w = dense ? Shape{kFilters, input.x.row()} : filters.weights(),
                  of_y = dense ? Shape{2, kFilters} : filters.output();
      Tensor x(gpu(), input.x, type), w(gpu(), of_w, Type::f32), b(gpu(), {kFilters}, Type::f32),
          y(gpu(), of_y, type);
      Random random(5, Purpose::generate, 0, 0);
      for (Tensor* tensor : {&x, &w, &b}) tensor->fill(random, 1);
      x.set(0, kNan);  // the first pixel of the first image
      const Memory scratch = gpu().allocate(plan->scratch_bytes(), Place::device);
      const auto stream = gpu().stream();
      plan->forward(*stream, x.view, w.view, b.view, y.view, scratch.get());
      stream->synchronize();
      const Values result = y.values();
      const auto half = static_cast<std::ptrdiff_t>(result.size() / 2);
      for (int i = 0; i < kFilters; ++i) EXPECT_TRUE(std::isnan(result[i])) << i;
      EXPECT_TRUE(std::none_of(result.begin() + half, result.end(), [](double value) {
        return std::isnan(value);
      })) << "the other image";
    }
  }
}

}  // namespace
}  // namespace lockstep
