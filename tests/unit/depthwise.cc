// Depthwise convolutions against their definition, a loop over single elements with std::fma: the
// same bits in every instruction set and on any number of threads.

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/device/cpu/kernels.h"
#include "tests/support/affine.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

struct Case {
  Shape x;
  std::int64_t kernel, stride, pad;
  bool relu = false, biases = true;
};

// One register of channels and more, a last register that overlaps, more and fewer images than
// groups; lines of one, some and many tiles; lines and windows without any pixel inside; strides
// that leave pixels out, and strides without tiles.
const std::vector<Case> kCases = {
    {{2, 5, 70, 32}, 7, 1, 3},      {{1, 7, 7, 16}, 7, 1, 3, true},
    {{3, 6, 5, 40}, 5, 1, 2},       {{2, 5, 6, 19}, 5, 1, 0},
    {{17, 4, 3, 24}, 5, 1, 1},      {{33, 2, 2, 16}, 5, 1, 4},
    {{2, 1, 1, 72}, 7, 1, 6},       {{2, 9, 15, 16}, 5, 2, 2, true},
    {{1, 9, 60, 17}, 7, 2, 1},      {{2, 8, 32, 31}, 3, 1, 1},
    {{1, 3, 4, 16}, 3, 1, 1, true}, {{1, 14, 14, 24}, 3, 2, 1},
    {{2, 7, 9, 33}, 3, 2, 0},       {{1, 8, 8, 16}, 3, 1, 5},
    {{1, 6, 8, 16}, 3, 2, 4},       {{1, 10, 11, 16}, 3, 3, 1},
    {{2, 13, 9, 18}, 7, 4, 2},      {{1, 1, 13, 16}, 3, 1, 1},
    {{2, 8, 8, 16}, 5, 5, 2},       {{1, 5, 28, 48}, 5, 1, 2},
    {{1, 6, 29, 16}, 7, 2, 3},      {{2, 4, 4, 16}, 3, 1, 1, true, false},
};

ConvolutionSpec spec_of(const Case& c, Type type) {
  return {.input = {c.x, type},
          .filters = c.x[3],
          .kernel = c.kernel,
          .stride = c.stride,
          .pad = c.pad,
          .groups = c.x[3],
          .relu = c.relu,
          .biases = c.biases};
}

/// The definition, for one case and its inputs.
class Reference {
 public:
  Reference(const ConvolutionSpec& spec, const AffineOutcome& in)
      : spec_(spec), in_(in), x_(spec.input.x), y_(spec.output()) {}

  double y(std::int64_t n, std::int64_t oy, std::int64_t ox, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t ky = 0; ky < spec_.kernel; ++ky) {
      for (std::int64_t kx = 0; kx < spec_.kernel; ++kx) {
        const std::int64_t iy = oy * spec_.stride - spec_.pad + ky,
                           ix = ox * spec_.stride - spec_.pad + kx;
        if (inside(x_, iy, ix)) sum = std::fma(at(in_.x, x_, n, iy, ix, c), w(c, ky, kx), sum);
      }
    }
    if (spec_.biases) sum += static_cast<float>(in_.b[static_cast<std::size_t>(c)]);
    return rounded(spec_.relu && sum < 0 ? 0 : sum);
  }
  double dx(std::int64_t n, std::int64_t iy, std::int64_t ix, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t ky = spec_.kernel - 1; ky >= 0; --ky) {
      for (std::int64_t kx = spec_.kernel - 1; kx >= 0; --kx) {
        const std::int64_t y = iy + spec_.pad - ky, x = ix + spec_.pad - kx;
        if (y % spec_.stride != 0 || x % spec_.stride != 0) continue;
        const std::int64_t oy = y / spec_.stride, ox = x / spec_.stride;
        if (inside(y_, oy, ox)) sum = std::fma(at(in_.dy, y_, n, oy, ox, c), w(c, ky, kx), sum);
      }
    }
    return rounded(sum);
  }
  double dw(std::int64_t c, std::int64_t ky, std::int64_t kx) const {
    const std::int64_t images = x_[0], groups = std::min<std::int64_t>(images, 16);
    float all = 0;
    for (std::int64_t group = 0; group < groups; ++group) {
      float sum = 0;
      for (std::int64_t n = images * group / groups; n < images * (group + 1) / groups; ++n) {
        for (std::int64_t oy = 0; oy < y_[1]; ++oy) {
          for (std::int64_t ox = 0; ox < y_[2]; ++ox) {
            const std::int64_t iy = oy * spec_.stride - spec_.pad + ky,
                               ix = ox * spec_.stride - spec_.pad + kx;
            if (inside(x_, iy, ix))
              sum = std::fma(at(in_.x, x_, n, iy, ix, c), at(in_.dy, y_, n, oy, ox, c), sum);
          }
        }
      }
      all += sum;
    }
    return all;
  }

 private:
  static bool inside(const Shape& shape, std::int64_t y, std::int64_t x) {
    return y >= 0 && y < shape[1] && x >= 0 && x < shape[2];
  }
  static float at(const Values& values, const Shape& shape, std::int64_t n, std::int64_t y,
                  std::int64_t x, std::int64_t c) {
    return static_cast<float>(
        values[static_cast<std::size_t>(((n * shape[1] + y) * shape[2] + x) * shape[3] + c)]);
  }
  float w(std::int64_t c, std::int64_t ky, std::int64_t kx) const {
    return static_cast<float>(
        in_.w[static_cast<std::size_t>((c * spec_.kernel + ky) * spec_.kernel + kx)]);
  }
  /// As the tensor's type holds it.
  double rounded(float value) const {
    return spec_.input.type == Type::bf16 ? static_cast<float>(Bfloat16(value)) : value;
  }

  const ConvolutionSpec& spec_;
  const AffineOutcome& in_;
  Shape x_, y_;
};

/// Calls f for every element of a tensor N, H, W, C and returns the results in order.
template <class F>
Values for_elements(const Shape& shape, F f) {
  Values values;
  for (std::int64_t n = 0; n < shape[0]; ++n)
    for (std::int64_t y = 0; y < shape[1]; ++y)
      for (std::int64_t x = 0; x < shape[2]; ++x)
        for (std::int64_t c = 0; c < shape[3]; ++c) values.push_back(f(n, y, x, c));
  return values;
}

class Depthwise : public testing::TestWithParam<std::string_view> {};

TEST_P(Depthwise, IsChainsOfFusedMultiplyAddsOnAnyThreads) {
  if (!processor_has(GetParam())) GTEST_SKIP() << "skipped: this processor has no " << GetParam();
  for (const Case& c : kCases) {
    for (const Type type : {Type::f32, Type::bf16}) {
      SCOPED_TRACE(fmt::format("{} kernel {} stride {} pad {} {}", c.x.text(), c.kernel, c.stride,
                               c.pad, name_of(type)));
      const ConvolutionSpec spec = spec_of(c, type);
      const auto plan = set_called(GetParam()).kernels().depthwise(spec);
      ASSERT_NE(plan, nullptr);
      EXPECT_EQ(plan->implementation(), "depthwise");
      for (const int threads : {1, 2, 3, 5}) {
        const AffineOutcome o = run_affine(*make_cpu_device(threads), *plan,
                                           {.x = spec.input.x,
                                            .w = spec.weights(),
                                            .y = spec.output(),
                                            .type = type,
                                            .biases = spec.biases});
        const Reference right(spec, o);
        EXPECT_EQ(o.y, for_elements(spec.output(), [&](auto... i) { return right.y(i...); }));
        EXPECT_EQ(o.dx, for_elements(spec.input.x, [&](auto... i) { return right.dx(i...); }));
        EXPECT_EQ(o.dw, for_elements(spec.weights(), [&](auto channel, auto y, auto x, auto) {
                    return right.dw(channel, y, x);
                  }));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Depthwise, testing::ValuesIn(kSets),
                         [](const auto& info) { return std::string(info.param); });

TEST(DepthwiseChoice, IsTheSameInEveryInstructionSet) {
  for (const std::string_view name : kSets) {
    if (!processor_has(name)) continue;
    SCOPED_TRACE(name);
    const auto serves = [&](auto change) {
      ConvolutionSpec spec = spec_of({{2, 9, 9, 32}, 3, 1, 1}, Type::f32);
      change(spec);
      return set_called(name).kernels().depthwise(spec) != nullptr;
    };
    EXPECT_TRUE(serves([](auto&) {}));
    EXPECT_TRUE(serves([](auto& spec) { spec.input.training = false; }));
    EXPECT_TRUE(serves([](auto& spec) { spec.stride = 3; }));
    EXPECT_FALSE(serves([](auto& spec) { spec.stride = 4; }));
    EXPECT_FALSE(serves([](auto& spec) { spec.dilation = 2; }));
    EXPECT_FALSE(serves([](auto& spec) { spec.groups = 16; }));
    EXPECT_FALSE(serves([](auto& spec) { spec.filters = 64; }));
    EXPECT_FALSE(serves([](auto& spec) { spec.kernel = 4; }));
    EXPECT_FALSE(serves([](auto& spec) {
      spec.input.x = {2, 1, 9, 32}, spec.one_dimensional = true;
    }));
    // 15 channels fill a register of 8, but not one of 16.
    EXPECT_FALSE(serves([](auto& spec) {
      spec.input.x = {2, 9, 9, 15}, spec.filters = spec.groups = 15;
    }));
  }
}

}  // namespace
}  // namespace lockstep
