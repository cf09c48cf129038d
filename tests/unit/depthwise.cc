// The weights gradient of depthwise convolutions against plain sums in double, on any number of
// threads; and the layers that it serves.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/base/random.h"
#include "src/device/arena.h"
#include "src/device/cpu/convolution.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

struct Case {
  Shape x;
  std::int64_t kernel, pad, stride = 1;
};

// One register and more of channels, a last register that overlaps, more and fewer images than
// groups, lines that need no padding, windows that only read padding, one and several output lines
// at a time.
const std::vector<Case> kCases = {
    {{2, 9, 70, 32}, 7, 3}, {{1, 7, 7, 16}, 7, 3},      {{3, 6, 5, 40}, 5, 2},
    {{2, 5, 6, 19}, 5, 0},  {{17, 4, 3, 24}, 5, 1},     {{33, 2, 2, 16}, 5, 4},
    {{2, 1, 1, 72}, 7, 6},  {{2, 14, 15, 16}, 5, 2, 2}, {{1, 9, 60, 17}, 7, 1, 2},
};

ConvolutionSpec spec_of(const Case& c, Type type) {
  return {.input = {c.x, type},
          .filters = c.x[3],
          .kernel = c.kernel,
          .stride = c.stride,
          .pad = c.pad,
          .groups = c.x[3]};
}

/// dw and db, each behind the other.
template <class T>
std::vector<double> plain_sums(const ConvolutionSpec& spec, const T* x, const T* dy) {
  const Shape in = spec.input.x, out = spec.output();
  const std::int64_t channels = in[3], k = spec.kernel;
  std::vector<double> sums(static_cast<std::size_t>(channels * k * k + channels));
  for (std::int64_t pixel = 0; pixel < out[0] * out[1] * out[2]; ++pixel) {
    const std::int64_t n = pixel / out[2] / out[1], i = pixel / out[2] % out[1], j = pixel % out[2];
    for (std::int64_t c = 0; c < channels; ++c) {
      const double gradient = dy[pixel * channels + c];
      sums[static_cast<std::size_t>(channels * k * k + c)] += gradient;
      for (std::int64_t tap = 0; tap < k * k; ++tap) {
        const std::int64_t row = i * spec.stride + tap / k - spec.pad,
                           column = j * spec.stride + tap % k - spec.pad;
        if (row < 0 || row >= in[1] || column < 0 || column >= in[2]) continue;
        sums[static_cast<std::size_t>(c * k * k + tap)] +=
            gradient * x[((n * in[1] + row) * in[2] + column) * channels + c];
      }
    }
  }
  return sums;
}

template <class T>
void check(const Kernels& kernels, const ConvolutionSpec& spec) {
  const auto device = make_cpu_device(1, "direct");
  const auto plan = kernels.depthwise(device->convolution(spec), spec);
  const std::int64_t channels = spec.filters;
  const bool serves = channels >= kernels.lanes;
  ASSERT_EQ(plan->implementation().ends_with("depthwise weights gradient"), serves);
  if (!serves) return;  // oneDNN's own sums
  Random random(7, Purpose::generate, 0, 0);
  const Shape in = spec.input.x, out = spec.output(), weights = spec.weights();
  std::vector<T> x(static_cast<std::size_t>(in.count())), dy(static_cast<std::size_t>(out.count()));
  for (T& value : x) value = static_cast<T>(random.uniform(-1, 1));
  for (T& value : dy) value = static_cast<T>(random.uniform(-1, 1));
  const std::vector<double> right = plain_sums(spec, x.data(), dy.data());
  const float nan = std::nanf(""), guard = 12345;
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    std::vector<float> scratch(plan->scratch_bytes() / sizeof(float) + 1, nan),
        sums(right.size(), nan);
    scratch.back() = guard;
    const auto stream = make_cpu_device(threads)->stream();
    plan->backward_weights(*stream, {x.data(), in, type_of<T>}, {dy.data(), out, type_of<T>},
                           {sums.data(), weights, Type::f32},
                           {sums.data() + weights.count(), {channels}, Type::f32}, scratch.data());
    EXPECT_EQ(scratch.back(), guard) << "a write beyond the end";
    double error = 0, size = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      error += std::pow(sums[i] - right[i], 2);
      size += std::pow(right[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), 1e-6) << threads;
    if (threads == 1) first = sums;
    EXPECT_EQ(sums, first) << threads;
  }
}

class Depthwise : public testing::TestWithParam<std::string_view> {};

TEST_P(Depthwise, SumsWeightsGradientsOnAnyThreads) {
  if (!processor_has(GetParam())) GTEST_SKIP() << "skipped: this processor has no " << GetParam();
  const Kernels& kernels = set_called(GetParam()).kernels();
  for (const Case& c : kCases) {
    SCOPED_TRACE(fmt::format("{}x{}x{}x{} kernel {} pad {} stride {}", c.x[0], c.x[1], c.x[2],
                             c.x[3], c.kernel, c.pad, c.stride));
    check<float>(kernels, spec_of(c, Type::f32));
    check<Bfloat16>(kernels, spec_of(c, Type::bf16));
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Depthwise, testing::ValuesIn(kSets),
                         [](const auto& info) { return std::string(info.param); });

TEST(DepthwiseChoice, LeavesOtherLayersToOneDnn) {
  const auto serves = [](auto change) {
    ConvolutionSpec spec = spec_of({{2, 9, 9, 32}, 5, 2}, Type::f32);
    change(spec);
    return make_cpu_device(1)->convolution(spec)->implementation().ends_with(
        "depthwise weights gradient");
  };
  EXPECT_TRUE(serves([](auto&) {}));
  EXPECT_FALSE(serves([](auto& spec) { spec.input.training = false; }));
  EXPECT_FALSE(serves([](auto& spec) { spec.dilation = 2; }));
  EXPECT_FALSE(serves([](auto& spec) { spec.groups = 16; }));
  EXPECT_FALSE(serves([](auto& spec) { spec.filters = 64; }));
  EXPECT_FALSE(serves([](auto& spec) { spec.kernel = 3; }));
  EXPECT_FALSE(serves([](auto& spec) {
    spec.input.x = {2, 1, 9, 32}, spec.one_dimensional = true;
  }));
}

}  // namespace
}  // namespace lockstep
