// Fast convolutions against plain sums in double, on shapes that fit their tiles and shapes that do
// not; and the choice between them and oneDNN.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/base/random.h"
#include "src/base/table.h"
#include "src/device/arena.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/cook_toom.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/cpu/kernels.h"
#include "src/device/cpu/matrix_units.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

using Values = std::vector<double>;

template <int M, int R>
void correlate() {
  SCOPED_TRACE(fmt::format("F({}, {})", M, R));
  constexpr auto matrices = cook_toom<M, R>();
  constexpr int points = M + R - 1;
  Random random(1, Purpose::generate, 0, 0);
  Values data(points), filter(R);
  for (double& value : data) value = random.uniform(-1, 1);
  for (double& value : filter) value = random.uniform(-1, 1);
  for (int i = 0; i < M; ++i) {
    double fast = 0, plain = 0;
    for (int p = 0; p < points; ++p) {
      double of_data = 0, of_filter = 0;
      for (int j = 0; j < points; ++j) of_data += matrices.data[p][j] * data[j];
      for (int j = 0; j < R; ++j) of_filter += matrices.filter[p][j] * filter[j];
      fast += matrices.output[i][p] * of_data * of_filter;
    }
    for (int j = 0; j < R; ++j) plain += data[i + j] * filter[j];
    EXPECT_NEAR(fast, plain, 1e-5) << i;
  }
  for (int p = 0; p < points; ++p) {
    double data_norm = 0, filter_norm = 0;
    for (int j = 0; j < points; ++j) data_norm += std::pow(matrices.data[p][j], 2);
    for (int j = 0; j < R; ++j) filter_norm += std::pow(matrices.filter[p][j], 2);
    EXPECT_NEAR(data_norm, 1, 1e-5) << p;
    EXPECT_NEAR(filter_norm, 1, 1e-5) << p;
  }
}

TEST(CookToom, CorrelatesWithBalancedRows) {
  correlate<2, 3>();
  correlate<4, 3>();
  correlate<2, 5>();
  correlate<4, 5>();
}

struct Case {
  Shape x;
  std::int64_t kernel, filters, pad;
};

std::string name_of_case(const Case& c) {
  return fmt::format("{}x{}x{}x{}_to_{}_kernel_{}_pad_{}", c.x[0], c.x[1], c.x[2], c.x[3],
                     c.filters, c.kernel, c.pad);
}

// Whole and cut tiles, fewer and more channels than a block of 64, incomplete registers, several
// blocks of tiles.
const std::vector<Case> kCases = {
    {{2, 12, 12, 64}, 5, 64, 2}, {{3, 8, 8, 16}, 5, 32, 2},  {{1, 5, 6, 80}, 5, 16, 0},
    {{1, 1, 1, 16}, 5, 16, 2},   {{1, 9, 7, 16}, 5, 16, 4},  {{2, 7, 9, 48}, 3, 80, 1},
    {{7, 3, 3, 160}, 3, 144, 1}, {{1, 11, 4, 16}, 3, 32, 2}, {{2, 6, 6, 16}, 3, 16, 0},
    {{40, 5, 5, 16}, 3, 16, 1},  {{1, 1, 3, 16}, 3, 16, 1},  {{2, 9, 7, 24}, 3, 40, 1},
    {{1, 5, 5, 91}, 5, 31, 2},   {{3, 4, 4, 17}, 3, 155, 1}, {{1, 5, 5, 17}, 3, 32, 1},
    {{1, 5, 5, 32}, 3, 17, 1},   {{3, 5, 6, 90}, 3, 18, 1},
};

/// All inputs and results of a plan.
struct Outcome {
  Values x, dy, w, b;  ///< rounded to their types
  Values y, dx, dw, db;
};

template <class T>
Outcome run(const Case& c, AffinePlan& plan, Stream& stream, Device& device, Shape out) {
  const Shape w_shape{c.filters, c.kernel, c.kernel, c.x[3]};
  const auto make = [&](std::int64_t count, std::size_t size) {
    Memory memory = device.allocate(static_cast<std::size_t>(count) * size + 64, Place::device);
    std::fill_n(memory.get(), static_cast<std::size_t>(count) * size + 64, std::byte{0xff});  // NaN
    return memory;
  };
  const auto fill = [](auto* to, std::int64_t count, std::uint32_t key, float low) {
    Random random(7, Purpose::generate, 0, key);
    Values values;
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = random.uniform(low, 1);
      values.push_back(static_cast<float>(to[i]));
    }
    return values;
  };
  const auto read = [](const auto* from, std::int64_t count) { return Values(from, from + count); };

  const Memory x = make(c.x.count(), sizeof(T)), y = make(out.count(), sizeof(T)),
               dy = make(out.count(), sizeof(T)), dx = make(c.x.count(), sizeof(T)),
               w = make(w_shape.count(), 4), dw = make(w_shape.count(), 4), b = make(c.filters, 4),
               db = make(c.filters, 4),
               scratch = make(static_cast<std::int64_t>(plan.scratch_bytes()), 1);
  const auto as = [](const Memory& memory, auto* tag) {
    return reinterpret_cast<decltype(tag)>(memory.get());
  };
  T* const t = nullptr;
  float* const f = nullptr;
  Outcome o;
  o.x = fill(as(x, t), c.x.count(), 1, 0);  // as after a ReLU
  o.dy = fill(as(dy, t), out.count(), 2, -1);
  o.w = fill(as(w, f), w_shape.count(), 3, -1);
  o.b = fill(as(b, f), c.filters, 4, -1);
  const Type type = type_of<T>;
  const View xv{x.get(), c.x, type}, yv{y.get(), out, type}, dyv{dy.get(), out, type},
      dxv{dx.get(), c.x, type}, wv{w.get(), w_shape, Type::f32},
      bv{b.get(), {c.filters}, Type::f32}, dwv{dw.get(), w_shape, Type::f32},
      dbv{db.get(), {c.filters}, Type::f32};
  plan.forward(stream, xv, wv, bv, yv, scratch.get());
  plan.backward_data(stream, dyv, wv, dxv, scratch.get());
  plan.backward_weights(stream, xv, dyv, dwv, dbv, scratch.get());
  const auto untouched = [](const Memory& memory, std::int64_t bytes) {
    return std::all_of(memory.get() + bytes, memory.get() + bytes + 64,
                       [](std::byte value) { return value == std::byte{0xff}; });
  };
  const auto size = static_cast<std::int64_t>(sizeof(T));
  EXPECT_TRUE(untouched(y, out.count() * size) && untouched(dx, c.x.count() * size) &&
              untouched(dw, w_shape.count() * 4) && untouched(db, c.filters * 4) &&
              untouched(scratch, static_cast<std::int64_t>(plan.scratch_bytes())))
      << "a write beyond the end";
  o.y = read(as(y, t), out.count());
  o.dx = read(as(dx, t), c.x.count());
  o.dw = read(as(dw, f), w_shape.count());
  o.db = read(as(db, f), c.filters);
  return o;
}

Outcome run(const Case& c, Type type, AffinePlan& plan, int threads, Shape out) {
  const auto device = make_cpu_device(threads);
  const auto stream = device->stream();
  return dispatch(type, [&](auto* tag) {
    return run<std::remove_pointer_t<decltype(tag)>>(c, plan, *stream, *device, out);
  });
}

/// y, dx, dw and db by plain sums over the inputs in `o`.
Outcome reference(const Case& c, const Outcome& o, Shape out, bool relu) {
  Outcome r;
  r.dx.assign(o.x.size(), 0);
  r.dw.assign(o.w.size(), 0);
  r.db.assign(o.b.size(), 0);
  const std::int64_t h = c.x[1], wd = c.x[2], channels = c.x[3], k = c.kernel;
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t i = 0; i < out[1]; ++i)
      for (std::int64_t j = 0; j < out[2]; ++j)
        for (std::int64_t f = 0; f < c.filters; ++f) {
          double sum = o.b[f];
          const double g = o.dy[r.y.size()];
          r.db[f] += g;
          for (std::int64_t u = 0; u < k; ++u)
            for (std::int64_t v = 0; v < k; ++v) {
              const std::int64_t y = i + u - c.pad, x = j + v - c.pad;
              if (y < 0 || y >= h || x < 0 || x >= wd) continue;
              for (std::int64_t q = 0; q < channels; ++q) {
                const auto at = static_cast<std::size_t>(((n * h + y) * wd + x) * channels + q);
                const auto weight = static_cast<std::size_t>(((f * k + u) * k + v) * channels + q);
                sum += o.x[at] * o.w[weight];
                r.dx[at] += g * o.w[weight];
                r.dw[weight] += g * o.x[at];
              }
            }
          r.y.push_back(relu ? std::max(sum, 0.0) : sum);
        }
  return r;
}

/// Root mean square of the difference, relative to `right`.
double error(const Values& found, const Values& right) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    difference += std::pow(found.at(i) - right[i], 2);
    norm += std::pow(right[i], 2);
  }
  return std::sqrt(difference / norm);
}

/// Kernels of an instruction set, tiles of 2x2 or 4x4, and a shape.
struct Choice {
  std::string_view set;
  int tile;
  Case c;
};

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (const std::string_view set : kSets)
    for (const int tile : {2, 4})
      for (const Case& c : kCases) all.push_back({set, tile, c});
  return all;
}

bool multiplies_bf16(std::string_view set) {
#ifdef __AVX512BF16__
  if (set == "baseline") return true;
#endif
  return set == "avx512_bf16";
}

/// The error of y, dx and dw for inputs as after a ReLU, with factors of fp32 or rounded to bf16.
double bound_of(int tile, std::int64_t kernel, bool rounded) {
  if (rounded) return tile == 2 ? 4e-3 : 9e-3;
  if (tile == 2) return kernel == 5 ? 4e-6 : 1.5e-6;
  return kernel == 5 ? 1.2e-5 : 3e-6;
}

class Winograd : public testing::TestWithParam<Choice> {};

TEST_P(Winograd, MatchesPlainSumsOnAnyThreads) {
  const auto& [set, tile, c] = GetParam();
  if (!processor_has(set)) GTEST_SKIP() << "skipped: this processor has no " << set;
  const Kernels& kernels = set_called(set).kernels();
  EXPECT_EQ(kernels.bf16_products, multiplies_bf16(set));
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool relu : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), relu ? "relu" : "linear"));
      const ConvolutionSpec spec{.input = {c.x, type},
                                 .filters = c.filters,
                                 .kernel = c.kernel,
                                 .pad = c.pad,
                                 .relu = relu};
      const auto plan = (tile == 2 ? kernels.winograd2 : kernels.winograd4)(spec);
      ASSERT_NE(plan, nullptr);
      const bool rounded = multiplies_bf16(set) && type == Type::bf16 && c.kernel == 3 &&
                           c.x[3] % 2 == 0 && c.filters % 2 == 0;
      EXPECT_EQ(plan->implementation(), fmt::format("Winograd F({0}x{0},{1}x{1}){2}", tile,
                                                    c.kernel, rounded ? ", products of bf16" : ""));
      const Outcome o = run(c, type, *plan, 1, spec.output());
      const Outcome right = reference(c, o, spec.output(), relu);
      // bf16: the rounding of y and dx.
      const double bound = bound_of(tile, c.kernel, rounded),
                   rounding = type == Type::f32 ? 0 : 3e-3;
      const double errors[] = {error(o.y, right.y), error(o.dx, right.dx), error(o.dw, right.dw),
                               error(o.db, right.db)};
      fmt::print("{} {}: relative RMS error forward {:.1e}, data {:.1e}, weights {:.1e}\n",
                 plan->implementation(), name_of(type), errors[0], errors[1], errors[2]);
      EXPECT_LT(errors[0], bound + rounding) << "forward";
      EXPECT_LT(errors[1], bound + rounding) << "backward data";
      EXPECT_LT(errors[2], bound) << "backward weights";
      EXPECT_LT(errors[3], 1e-6) << "bias";
      for (const int threads : {2, 3}) {
        const Outcome other = run(c, type, *plan, threads, spec.output());
        EXPECT_EQ(other.y, o.y) << threads;
        EXPECT_EQ(other.dx, o.dx) << threads;
        EXPECT_EQ(other.dw, o.dw) << threads;
        EXPECT_EQ(other.db, o.db) << threads;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Winograd, testing::ValuesIn(choices()), [](const auto& info) {
  return fmt::format("{}_tile_{}_{}", info.param.set, info.param.tile, name_of_case(info.param.c));
});

/// The kernels of this processor.
const Kernels& own_kernels() { return use_instruction_set("auto").kernels(); }

TEST(Winograd, PropagatesNan) {
  const Case c{{1, 4, 4, 16}, 3, 16, 1};
  const ConvolutionSpec spec{.input = {c.x, Type::bf16},
                             .filters = c.filters,
                             .kernel = c.kernel,
                             .pad = c.pad,
                             .relu = true};
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  const auto plan = own_kernels().winograd4(spec);
  std::vector<Bfloat16> x(256, Bfloat16(std::numeric_limits<float>::quiet_NaN())), y(256);
  std::vector<float> w(9 * 256, 1.0f), b(16, 0.0f);
  std::vector<float> scratch(plan->scratch_bytes() / 4 + 1);
  plan->forward(*stream, {x.data(), c.x, Type::bf16}, {w.data(), {16, 3, 3, 16}, Type::f32},
                {b.data(), {16}, Type::f32}, {y.data(), c.x, Type::bf16}, scratch.data());
  EXPECT_TRUE(std::all_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }));
}

TEST(Winograd, RefusesUnsupportedLayers) {
  const ConvolutionSpec good{
      .input = {{8, 12, 12, 64}, Type::f32}, .filters = 64, .kernel = 5, .pad = 2};
  const auto serves = [](const ConvolutionSpec& spec) {
    EXPECT_EQ(own_kernels().winograd2(spec) == nullptr, own_kernels().winograd4(spec) == nullptr);
    return own_kernels().winograd4(spec) != nullptr;
  };
  EXPECT_TRUE(serves(good));
  const auto but = [&](auto change) {
    ConvolutionSpec spec = good;
    change(spec);
    return serves(spec);
  };
  EXPECT_FALSE(but([](auto& spec) { spec.stride = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.dilation = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.groups = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.one_dimensional = true; }));
  EXPECT_FALSE(but([](auto& spec) { spec.kernel = 1; }));
  EXPECT_FALSE(but([](auto& spec) { spec.kernel = 7; }));
  EXPECT_FALSE(but([](auto& spec) { spec.pad = 5; }));
  EXPECT_FALSE(but([](auto& spec) { spec.filters = 7; }));
  EXPECT_FALSE(but([](auto& spec) { spec.filters = 71; }));
  EXPECT_FALSE(but([](auto& spec) { spec.input.x = {8, 12, 12, 3}; }));
}

// One channel, few channels, incomplete tiles; even and odd numbers of pixels per line.
const std::vector<Case> kTileCases = {
    {{3, 12, 12, 64}, 5, 64, 2}, {{5, 10, 11, 3}, 5, 64, 2}, {{2, 7, 6, 10}, 3, 20, 0},
    {{1, 1, 1, 1}, 1, 1, 0},     {{4, 5, 4, 16}, 1, 48, 0},  {{2, 3, 9, 40}, 4, 33, 1},
    {{70, 6, 6, 32}, 3, 32, 1},  {{1, 9, 3, 15}, 3, 7, 2},   {{2, 8, 8, 17}, 7, 16, 3},
};

class MatrixUnits : public testing::TestWithParam<Case> {};

TEST_P(MatrixUnits, SumWeightsGradientsOnAnyThreads) {
  if (!has_matrix_units()) GTEST_SKIP() << "skipped: this processor has no matrix units (AMX)";
  const Case& c = GetParam();
  const ConvolutionSpec spec{
      .input = {c.x, Type::bf16}, .filters = c.filters, .kernel = c.kernel, .pad = c.pad};
  const auto device = make_cpu_device(1, "matrix_units");
  const auto plan = device->convolution(spec);
  ASSERT_NE(plan->implementation().find("matrix units"), std::string::npos);
  const Outcome o = run(c, Type::bf16, *plan, 1, spec.output());
  const Outcome right = reference(c, o, spec.output(), false);
  const double errors[] = {error(o.dw, right.dw), error(o.db, right.db)};
  fmt::print("relative RMS error weights {:.1e}, bias {:.1e}\n", errors[0], errors[1]);
  EXPECT_LT(errors[0], 1e-6);
  EXPECT_LT(errors[1], 1e-6);
  for (const int threads : {2, 3}) {
    const Outcome other = run(c, Type::bf16, *plan, threads, spec.output());
    EXPECT_EQ(other.dw, o.dw) << threads;
    EXPECT_EQ(other.db, o.db) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatrixUnits, testing::ValuesIn(kTileCases),
                         [](const auto& info) { return name_of_case(info.param); });

TEST(MatrixUnits, LeaveOtherLayersToOneDnn) {
  const ConvolutionSpec good{
      .input = {{8, 12, 12, 64}, Type::bf16}, .filters = 64, .kernel = 5, .pad = 2};
  EXPECT_TRUE(matrix_units_serve(good));
  const auto but = [&](auto change) {
    ConvolutionSpec spec = good;
    change(spec);
    return matrix_units_serve(spec);
  };
  EXPECT_FALSE(but([](auto& spec) { spec.input.type = Type::f32; }));
  EXPECT_FALSE(but([](auto& spec) { spec.input.training = false; }));
  EXPECT_FALSE(but([](auto& spec) { spec.stride = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.dilation = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.groups = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.one_dimensional = true; }));
}

// Few and many blocks of sums, filters in one register and in several, cut images.
const std::vector<Case> kLineCases = {
    {{5, 10, 11, 3}, 5, 64, 2}, {{2, 7, 6, 1}, 3, 32, 0}, {{1, 1, 1, 3}, 1, 16, 0},
    {{3, 9, 3, 7}, 3, 80, 2},   {{2, 8, 8, 3}, 7, 24, 3}, {{9, 5, 4, 2}, 2, 16, 0},
    {{1, 3, 99, 16}, 3, 16, 1}, {{70, 6, 6, 3}, 3, 8, 1},
};

struct LineChoice {
  std::string_view set;
  Case c;
};

std::vector<LineChoice> line_choices() {
  std::vector<LineChoice> all;
  for (const std::string_view set : kSets)
    for (const Case& c : kLineCases) all.push_back({set, c});
  return all;
}

class Lines : public testing::TestWithParam<LineChoice> {};

TEST_P(Lines, SumWeightsGradientsOnAnyThreads) {
  const auto& [set, c] = GetParam();
  if (!processor_has(set)) GTEST_SKIP() << "skipped: this processor has no " << set;
  const Kernels& kernels = set_called(set).kernels();
  const ConvolutionSpec spec{
      .input = {c.x, Type::f32}, .filters = c.filters, .kernel = c.kernel, .pad = c.pad};
  const auto device = make_cpu_device(1, "direct");
  const auto plan = kernels.lines(device->convolution(spec), spec);
  const bool serves = c.filters % kernels.lanes == 0;
  ASSERT_EQ(plan->implementation().ends_with("weights gradient by lines"), serves);
  if (!serves) return;  // oneDNN's own sums
  const Outcome o = run(c, Type::f32, *plan, 1, spec.output());
  const Outcome right = reference(c, o, spec.output(), false);
  const double errors[] = {error(o.y, right.y), error(o.dx, right.dx), error(o.dw, right.dw),
                           error(o.db, right.db)};
  fmt::print("relative RMS error weights {:.1e}, bias {:.1e}\n", errors[2], errors[3]);
  for (const double each : errors) EXPECT_LT(each, 1e-6);
  for (const int threads : {2, 3}) {
    const Outcome other = run(c, Type::f32, *plan, threads, spec.output());
    EXPECT_EQ(other.dw, o.dw) << threads;
    EXPECT_EQ(other.db, o.db) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Lines, testing::ValuesIn(line_choices()), [](const auto& info) {
  return fmt::format("{}_{}", info.param.set, name_of_case(info.param.c));
});

TEST(Lines, LeaveOtherLayersToOneDnn) {
  const ConvolutionSpec good{
      .input = {{2, 12, 12, 3}, Type::f32}, .filters = 64, .kernel = 5, .pad = 2};
  const auto serves = [](const ConvolutionSpec& spec) {
    return make_cpu_device(1, "lines")->convolution(spec)->implementation().ends_with("by lines");
  };
  EXPECT_TRUE(serves(good));
  const auto but = [&](auto change) {
    ConvolutionSpec spec = good;
    change(spec);
    return serves(spec);
  };
  EXPECT_TRUE(but([](auto& spec) { spec.input.x = {2, 1, 12, 3}, spec.one_dimensional = true; }));
  EXPECT_FALSE(but([](auto& spec) { spec.input.training = false; }));
  EXPECT_FALSE(but([](auto& spec) { spec.stride = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.dilation = 2; }));
  EXPECT_FALSE(but([](auto& spec) { spec.filters = 63, spec.groups = 3; }));
  EXPECT_FALSE(but([](auto& spec) { spec.filters = 20; }));
}

TEST(Convolutions, ChooseOnlyByShapeAndType) {
  const auto engine_text = [](std::string_view name, const ConvolutionSpec& spec) {
    return make_cpu_device(1, name)->convolution(spec)->implementation();
  };
  const ConvolutionSpec large{
      .input = {{8, 12, 12, 64}, Type::f32}, .filters = 64, .kernel = 5, .pad = 2};
  const ConvolutionSpec small{
      .input = {{8, 12, 12, 16}, Type::f32}, .filters = 16, .kernel = 3, .pad = 1};
  const ConvolutionSpec medium{
      .input = {{8, 16, 16, 32}, Type::f32}, .filters = 32, .kernel = 3, .pad = 1};
  EXPECT_EQ(engine_text("auto", large), "Winograd F(4x4,5x5)");
  EXPECT_EQ(engine_text("auto", medium), "Winograd F(4x4,3x3)");
  // With 16 channels transforms pay if registers have 8 floats, not if they have 16.
  EXPECT_EQ(engine_text("auto", small).starts_with("oneDNN"), own_kernels().lanes == 16);
  // Transforms do not pay for few tiles or for a single output.
  const auto of = [](std::int64_t batch, std::int64_t edge) {
    return ConvolutionSpec{
        .input = {{batch, edge, edge, 256}, Type::f32}, .filters = 256, .kernel = 3, .pad = 1};
  };
  EXPECT_TRUE(engine_text("auto", of(1, 8)).starts_with("oneDNN"));
  EXPECT_TRUE(engine_text("auto", of(16, 8)).starts_with("Winograd"));
  EXPECT_TRUE(engine_text("auto", of(500, 1)).starts_with("oneDNN"));
  EXPECT_EQ(engine_text("direct", large).find("oneDNN"), 0u);
  const auto by_lines = [&](std::int64_t channels) {
    return engine_text(
               "auto",
               {.input = {{8, 24, 24, channels}, Type::f32}, .filters = 64, .kernel = 5, .pad = 2})
        .ends_with("by lines");
  };
  EXPECT_TRUE(by_lines(3) && by_lines(7));
  EXPECT_FALSE(by_lines(8));
  if (has_matrix_units()) {
    const auto by_units = [&](std::string_view name, ConvolutionSpec spec) {
      spec.input.type = Type::bf16;
      return engine_text(name, spec).find("matrix units") != std::string::npos;
    };
    EXPECT_TRUE(by_units("auto", large));
    EXPECT_FALSE(by_units("auto", small));
    EXPECT_TRUE(by_units("matrix_units", small));
    EXPECT_FALSE(by_units("direct", large));
  }
  EXPECT_EQ(engine_text("winograd4", small), "Winograd F(4x4,3x3)");
  EXPECT_EQ(engine_text("winograd2", large), "Winograd F(2x2,5x5)");
  EXPECT_THROW(make_cpu_device(1, "fast"), Error);
  EXPECT_NE(make_cpu_device(1, "direct")->arithmetic(), make_cpu_device(1)->arithmetic());
}

TEST(InstructionSets, AutoIsTheWidestSetOfTheProcessor) {
  const InstructionSet& own = use_instruction_set("auto");
  bool wider = false;
  for (const InstructionSet& set : instruction_sets().subspan(2)) {
    if (wider) {
      EXPECT_THROW(use_instruction_set(set.name), Error) << set.name;
    }
    wider = wider || set.name == own.name;
  }
  EXPECT_THROW(use_instruction_set("avx3"), Error);
}

}  // namespace
}  // namespace lockstep
