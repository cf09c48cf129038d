// The definition of portable arithmetic, with std::fma, and every kernel of it in every bit: on
// each instruction set and on any number of threads.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "src/base/random.h"
#include "src/device/cpu/kernels.h"
#include "src/device/cpu/library.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

/// The baseline is perhaps the same as another set.
std::vector<InstructionSet> sets() {
  std::vector<InstructionSet> result;
  for (const std::string_view name : kSets) {
    const auto same = [&](const auto& set) {
      return &set.kernels() == &set_called(name).kernels();
    };
    if (processor_has(name) && std::ranges::none_of(result, same))
      result.push_back(set_called(name));
  }
  return result;
}

Floats noise(std::int64_t count, std::uint32_t key) {
  Random random(5, Purpose::generate, 0, key);
  Floats values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform(-1, 1));
  return values;
}

/// A sum of products in the canonical order.
class Sum {
 public:
  void add(float a, float b) {
    if (count_ > 0 && count_ % 256 == 0) close();
    chain_ = std::fma(a, b, chain_);
    ++count_;
  }
  float value() {
    close();
    return sum_;
  }

 private:
  void close() {
    sum_ = first_ ? chain_ : sum_ + chain_;
    first_ = false;
    chain_ = 0;
  }

  float chain_ = 0, sum_ = 0;
  std::int64_t count_ = 0;
  bool first_ = true;
};

/// Expects the same bits. At most one failure.
void expect_bits(const Floats& right, const Floats& values, std::string_view name) {
  ASSERT_EQ(right.size(), values.size()) << name;
  for (std::size_t i = 0; i < right.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(right[i]) == std::bit_cast<std::uint32_t>(values[i])) continue;
    FAIL() << fmt::format("{} {} of {}: {:a}, expected {:a}", name, i, right.size(), values[i],
                          right[i]);
  }
}

View view(const Floats& values) {
  return {const_cast<float*>(values.data()), {static_cast<std::int64_t>(values.size())}};
}

/// Memory that is NaN before each call.
struct Scratch {
  explicit Scratch(std::size_t bytes) : floats((bytes + 3) / 4) {}
  void* fresh() {
    std::fill(floats.begin(), floats.end(), std::numeric_limits<float>::quiet_NaN());
    return floats.data();
  }
  Floats floats;
};

/// Calls f(kernels, stream) for all sets and numbers of threads.
template <class F>
void on_all(F f) {
  for (const InstructionSet& set : sets()) {
    for (const int threads : {1, 2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{} with {} threads", set.name, threads));
      HostStream stream(threads);
      f(set.kernels(), stream);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// --- products -----------------------------------------------------------------------------------

Floats right_product(const ProductSpec& s, const Floats& a, const Floats& b) {
  Floats c;
  for (std::int64_t i = 0; i < s.count; ++i)
    for (std::int64_t row = 0; row < s.rows; ++row)
      for (std::int64_t column = 0; column < s.columns; ++column) {
        Sum sum;
        for (std::int64_t k = 0; k < s.inner; ++k) {
          const std::int64_t in_a = s.transposed_a ? k * s.rows + row : row * s.inner + k,
                             in_b = s.transposed_b ? column * s.inner + k : k * s.columns + column;
          sum.add(a[i * s.rows * s.inner + in_a], b[i * s.inner * s.columns + in_b]);
        }
        c.push_back(sum.value());
      }
  return c;
}

void check_product(const ProductSpec& s) {
  SCOPED_TRACE(fmt::format("{} of {} x {} x {}, transposed {} {}", s.count, s.rows, s.inner,
                           s.columns, s.transposed_a, s.transposed_b));
  const Floats a = noise(s.count * s.rows * s.inner, 1),
               b = noise(s.count * s.inner * s.columns, 2);
  const Floats right = right_product(s, a, b);
  on_all([&](const Kernels& kernels, Stream& stream) {
    const auto plan = kernels.portable_product(s);
    Floats c(right.size(), std::numeric_limits<float>::quiet_NaN());
    Scratch scratch(plan->scratch_bytes());
    plan->run(stream, view(a), view(b), view(c), scratch.fresh());
    expect_bits(right, c, "c");
  });
}

TEST(PortableKernels, ProductsOfAllShapes) {
  for (const bool transposed_a : {false, true}) {
    for (const bool transposed_b : {false, true}) {
      ProductSpec s{.transposed_a = transposed_a, .transposed_b = transposed_b};
      for (const auto& [count, rows, columns, inner] :
           std::vector<std::array<std::int64_t, 4>>{{1, 1, 1, 1},
                                                    {1, 13, 31, 255},
                                                    {2, 29, 33, 257},
                                                    {7, 14, 16, 64},
                                                    {1, 115, 67, 40},
                                                    {3, 6, 8, 600},
                                                    {1, 3, 700, 515},
                                                    {2, 5, 288, 1100},
                                                    {3, 37, 80, 140},
                                                    {1, 250, 5, 9}}) {
        s.count = count;
        s.rows = rows;
        s.columns = columns;
        s.inner = inner;
        check_product(s);
      }
    }
  }
}

// --- convolutions and dense layers --------------------------------------------------------------

struct Tensors {
  Floats x, w, b, dy;
};
struct Results {
  Floats y, dx, dw, db;
};

/// The place of filter `o`'s tap (ky, kx) and channel i.
std::int64_t place_of_weight(const ConvolutionSpec& s, std::int64_t o, std::int64_t ky,
                             std::int64_t kx, std::int64_t i) {
  return ((o * s.kernel_height() + ky) * s.kernel + kx) * (s.input.x[3] / s.groups) + i;
}

/// x of image n at (y, x), or 0 outside of it.
float pixel(const Floats& values, const Shape& shape, std::int64_t n, std::int64_t y,
            std::int64_t x, std::int64_t c) {
  if (y < 0 || y >= shape[1] || x < 0 || x >= shape[2]) return 0;
  return values[((n * shape[1] + y) * shape[2] + x) * shape[3] + c];
}

Floats right_forward(const ConvolutionSpec& s, const Tensors& t) {
  const Shape in = s.input.x, out = s.output();
  const std::int64_t channels = in[3] / s.groups, filters = s.filters / s.groups;
  Floats y;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t oy = 0; oy < out[1]; ++oy)
      for (std::int64_t ox = 0; ox < out[2]; ++ox)
        for (std::int64_t o = 0; o < out[3]; ++o) {
          Sum sum;
          for (std::int64_t ky = 0; ky < s.kernel_height(); ++ky)
            for (std::int64_t kx = 0; kx < s.kernel; ++kx)
              for (std::int64_t i = 0; i < channels; ++i)
                sum.add(pixel(t.x, in, n, oy * s.stride - s.pad_height() + ky * s.dilation,
                              ox * s.stride - s.pad + kx * s.dilation, o / filters * channels + i),
                        t.w[place_of_weight(s, o, ky, kx, i)]);
          const float value = s.biases ? sum.value() + t.b[o] : sum.value();
          y.push_back(s.relu && value < 0 ? 0 : value);
        }
  return y;
}

Floats right_data(const ConvolutionSpec& s, const Tensors& t) {
  const Shape in = s.input.x, out = s.output();
  const std::int64_t channels = in[3] / s.groups, filters = s.filters / s.groups;
  Floats dx;
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t iy = 0; iy < in[1]; ++iy)
      for (std::int64_t ix = 0; ix < in[2]; ++ix)
        for (std::int64_t c = 0; c < in[3]; ++c) {
          Sum sum;
          for (std::int64_t ky = s.kernel_height() - 1; ky >= 0; --ky)
            for (std::int64_t kx = s.kernel - 1; kx >= 0; --kx) {
              const std::int64_t y = iy + s.pad_height() - ky * s.dilation,
                                 x = ix + s.pad - kx * s.dilation;
              if (y % s.stride != 0 || x % s.stride != 0) continue;
              for (std::int64_t i = 0; i < filters; ++i) {
                const std::int64_t o = c / channels * filters + i;
                sum.add(pixel(t.dy, out, n, y / s.stride, x / s.stride, o),
                        t.w[place_of_weight(s, o, ky, kx, c % channels)]);
              }
            }
          dx.push_back(sum.value());
        }
  return dx;
}

Floats right_weights(const ConvolutionSpec& s, const Tensors& t) {
  const Shape in = s.input.x, out = s.output();
  const std::int64_t channels = in[3] / s.groups, filters = s.filters / s.groups;
  Floats dw;
  for (std::int64_t o = 0; o < out[3]; ++o)
    for (std::int64_t ky = 0; ky < s.kernel_height(); ++ky)
      for (std::int64_t kx = 0; kx < s.kernel; ++kx)
        for (std::int64_t i = 0; i < channels; ++i) {
          Sum sum;
          for (std::int64_t n = 0; n < out[0]; ++n)
            for (std::int64_t oy = 0; oy < out[1]; ++oy)
              for (std::int64_t ox = 0; ox < out[2]; ++ox)
                sum.add(pixel(t.x, in, n, oy * s.stride - s.pad_height() + ky * s.dilation,
                              ox * s.stride - s.pad + kx * s.dilation, o / filters * channels + i),
                        pixel(t.dy, out, n, oy, ox, o));
          dw.push_back(sum.value());
        }
  return dw;
}

/// Plain sums over an image's pixels, then over the images.
Floats right_biases(const ConvolutionSpec& s, const Tensors& t) {
  const Shape out = s.output();
  Floats db(static_cast<std::size_t>(out[3]));
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t o = 0; o < out[3]; ++o) {
      float sum = 0;
      for (std::int64_t p = 0; p < out[1] * out[2]; ++p)
        sum += t.dy[(n * out[1] * out[2] + p) * out[3] + o];
      db[o] += sum;
    }
  return db;
}

void check_plan(const ConvolutionSpec& s, AffinePlan& plan, Stream& stream, const Tensors& t,
                const Results& right) {
  const auto blank = [](const Floats& like) {
    return Floats(like.size(), std::numeric_limits<float>::quiet_NaN());
  };
  Results r{blank(right.y), blank(right.dx), blank(right.dw), blank(right.db)};
  Scratch scratch(plan.scratch_bytes());
  plan.forward(stream, view(t.x), view(t.w), s.biases ? view(t.b) : View(), view(r.y),
               scratch.fresh());
  expect_bits(right.y, r.y, "y");
  plan.backward_data(stream, view(t.dy), view(t.w), view(r.dx), scratch.fresh());
  expect_bits(right.dx, r.dx, "dx");
  plan.backward_weights(stream, view(t.x), view(t.dy), view(r.dw), s.biases ? view(r.db) : View(),
                        scratch.fresh());
  expect_bits(right.dw, r.dw, "dw");
  if (s.biases) expect_bits(right.db, r.db, "db");
}

Tensors tensors_of(const ConvolutionSpec& s) {
  return {noise(s.input.x.count(), 1), noise(s.weights().count(), 2), noise(s.filters, 3),
          noise(s.output().count(), 4)};
}
Results right_results(const ConvolutionSpec& s, const Tensors& t) {
  return {right_forward(s, t), right_data(s, t), right_weights(s, t), right_biases(s, t)};
}

void check_convolution(const ConvolutionSpec& s) {
  SCOPED_TRACE(fmt::format("{} to {}, kernel {}, stride {}, pad {}, dilation {}, groups {}",
                           s.input.x.text(), s.output().text(), s.kernel, s.stride, s.pad,
                           s.dilation, s.groups));
  const Tensors t = tensors_of(s);
  const Results right = right_results(s, t);
  on_all([&](const Kernels& kernels, Stream& stream) {
    check_plan(s, *kernels.portable_convolution(s), stream, t, right);
  });
}

TEST(PortableKernels, ConvolutionsOfAllShapes) {
  const std::vector<ConvolutionSpec> specs{
      {.input = {{2, 7, 9, 20}}, .filters = 33, .kernel = 3, .pad = 1},
      {.input = {{2, 8, 5, 34}}, .filters = 7, .kernel = 3, .stride = 2, .pad = 1, .biases = false},
      {.input = {{1, 11, 10, 5}}, .filters = 18, .kernel = 4, .stride = 3, .pad = 2},
      {.input = {{3, 9, 9, 6}}, .filters = 16, .kernel = 3, .pad = 2, .dilation = 2, .relu = true},
      {.input = {{2, 9, 8, 4}}, .filters = 9, .kernel = 3, .stride = 2, .pad = 3, .dilation = 3},
      {.input = {{2, 6, 6, 12}}, .filters = 18, .kernel = 3, .pad = 1, .groups = 3},
      {.input = {{2, 6, 7, 20}}, .filters = 40, .kernel = 3, .stride = 2, .pad = 1, .groups = 2},
      {.input = {{2, 5, 6, 9}}, .filters = 9, .kernel = 3, .pad = 1, .groups = 9, .relu = true},
      {.input = {{3, 1, 30, 7}}, .filters = 16, .kernel = 5, .pad = 2, .one_dimensional = true},
      {.input = {{2, 1, 31, 1}}, .filters = 5, .kernel = 3, .stride = 2, .one_dimensional = true},
      {.input = {{2, 5, 5, 8}}, .filters = 24, .kernel = 1, .stride = 2},
      {.input = {{2, 5, 5, 8}}, .filters = 24, .kernel = 1, .pad = 2},
      {.input = {{2, 5, 5, 70}}, .filters = 35, .kernel = 1, .relu = true},
      {.input = {{2, 8, 8, 3}}, .filters = 10, .kernel = 4, .stride = 4, .biases = false},
      {.input = {{20, 2, 2, 40}}, .filters = 96, .kernel = 3, .pad = 1, .relu = true},
      {.input = {{2, 3, 3, 96}}, .filters = 260, .kernel = 1, .groups = 2},
      {.input = {{3, 4, 4, 48}}, .filters = 130, .kernel = 2, .stride = 2},
      {.input = {{5, 920, 920, 1}}, .filters = 2, .kernel = 1},  // more than one long line
  };
  for (const ConvolutionSpec& spec : specs) check_convolution(spec);
}

TEST(PortableKernels, FirstLayers) {
  const std::vector<ConvolutionSpec> specs{
      {.input = {{3, 9, 17, 3}}, .filters = 32, .kernel = 5, .pad = 2, .relu = true},
      {.input = {{5, 12, 15, 3}}, .filters = 48, .kernel = 3, .stride = 2, .pad = 1},
      {.input = {{2, 33, 31, 3}}, .filters = 16, .kernel = 7, .stride = 2, .pad = 3},
      {.input = {{3, 16, 16, 1}}, .filters = 64, .kernel = 5, .pad = 2},
      {.input = {{2, 40, 20, 3}}, .filters = 16, .kernel = 11, .pad = 1, .biases = false},
      {.input = {{2, 9, 17, 3}}, .filters = 21, .kernel = 3, .pad = 1},
      {.input = {{2, 9, 17, 3}}, .filters = 16, .kernel = 3, .pad = 2, .dilation = 2},
      {.input = {{2, 1, 40, 3}}, .filters = 16, .kernel = 5, .one_dimensional = true},
      // Larger than the images that are read at a time.
      {.input = {{3, 256, 384, 3}}, .filters = 16, .kernel = 3, .stride = 4, .pad = 1},
      {.input = {{3, 257, 385, 3}}, .filters = 16, .kernel = 3, .stride = 4},
      {.input = {{2, 250, 380, 3}}, .filters = 16, .kernel = 3, .stride = 4, .pad = 1},
  };
  for (const ConvolutionSpec& spec : specs) check_convolution(spec);
}

TEST(PortableKernels, DenseLayers) {
  for (const auto& [rows, in, features] :
       std::vector<std::array<std::int64_t, 3>>{{1, 300, 20},
                                                {3, 20, 50},
                                                {10, 530, 37},
                                                {32, 70, 64},
                                                {40, 176, 300},
                                                {130, 33, 10},
                                                {300, 17, 290}}) {
    const DenseSpec dense{.input = {{rows, 1, 1, in}}, .features = features, .relu = rows % 2 == 0};
    const ConvolutionSpec s{
        .input = dense.input, .filters = features, .kernel = 1, .relu = dense.relu};
    SCOPED_TRACE(fmt::format("{} rows, {} to {}", rows, in, features));
    const Tensors t = tensors_of(s);
    const Results right = right_results(s, t);
    on_all([&](const Kernels& kernels, Stream& stream) {
      check_plan(s, *kernels.portable_dense(dense), stream, t, right);
    });
  }
}

TEST(PortableKernels, FrozenWeightsHaveAGradientOfTheBiases) {
  const ConvolutionSpec s{
      .input = {{2, 5, 5, 8}, Type::f32, true, false, true}, .filters = 24, .kernel = 3};
  const Tensors t = tensors_of(s);
  const Floats right = right_biases(s, t);
  on_all([&](const Kernels& kernels, Stream& stream) {
    const auto plan = kernels.portable_convolution(s);
    Floats db(right.size());
    Scratch scratch(plan->scratch_bytes());
    plan->backward_weights(stream, view(t.x), view(t.dy), {}, view(db), scratch.fresh());
    expect_bits(right, db, "db");
  });
}

// --- the device ----------------------------------------------------------------------------------

bool by_onednn(const AffinePlan& plan) { return plan.implementation().starts_with("oneDNN"); }

TEST(PortableArithmetic, ServesLayersInFp32Only) {
  const auto device = make_cpu_device(1, "auto", "auto", "portable");
  EXPECT_EQ(device->arithmetic(Type::f32), "portable 2, convolutions auto");
  EXPECT_EQ(make_cpu_device(1, "direct", "auto", "portable")->arithmetic(Type::f32),
            "portable 2, convolutions direct");
  DenseSpec dense{.input = {{4, 1, 1, 8}}, .features = 8};
  ConvolutionSpec strided{.input = {{2, 8, 8, 16}}, .filters = 16, .kernel = 3, .stride = 2};
  EXPECT_EQ(device->dense(dense)->implementation(), "portable");
  EXPECT_EQ(device->convolution(strided)->implementation(), "portable");
  EXPECT_EQ(device->product({.count = 1, .rows = 2, .columns = 3, .inner = 4})->implementation(),
            "portable");
  EXPECT_THROW(make_cpu_device(1, "auto", "auto", "exact"), Error);
  if (library::name().empty()) return;
  const auto fast = make_cpu_device(1, "auto", "auto", "fast");
  EXPECT_EQ(device->arithmetic(Type::bf16), fast->arithmetic(Type::bf16));
  EXPECT_TRUE(by_onednn(*fast->dense(dense)));
  EXPECT_TRUE(by_onednn(*fast->convolution(strided)));
  if (!device->traits().computes(Type::bf16)) return;
  dense.input.type = strided.input.type = Type::bf16;
  EXPECT_TRUE(by_onednn(*device->dense(dense)));
  EXPECT_TRUE(by_onednn(*device->convolution(strided)));
}

TEST(PortableArithmetic, IsTheOnlyOneWithoutOneDnn) {
  if (!library::name().empty()) GTEST_SKIP() << "skipped: this build has oneDNN";
  const auto device = make_cpu_device(1, "auto", "auto", "portable");
  EXPECT_THROW(make_cpu_device(1, "auto", "auto", "fast"), Error);
  EXPECT_FALSE(device->traits().computes(Type::bf16));
  EXPECT_THROW(device->dense({.input = {{4, 1, 1, 8}, Type::bf16}, .features = 8}), Error);
  EXPECT_THROW(
      device->product({.type = Type::bf16, .count = 1, .rows = 2, .columns = 3, .inner = 4}),
      Error);
}

}  // namespace
}  // namespace lockstep
