// Fast convolutions and weights gradients against plain sums in double, on any number of threads,
// on shapes that fit their tiles and shapes that do not; and the choice between them and oneDNN.

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "src/base/table.h"
#include "src/device/cpu/convolution.h"
#include "src/device/cpu/cook_toom.h"
#include "src/device/cpu/instruction_set.h"
#include "src/device/cpu/kernels.h"
#include "src/device/cpu/library.h"
#include "src/device/cpu/matrix_units.h"
#include "tests/support/affine.h"
#include "tests/support/expect_error.h"
#include "tests/support/instruction_sets.h"

namespace lockstep {
namespace {

template <int M, int R, int Full = M>
void correlate() {
  SCOPED_TRACE(fmt::format("F({}, {}), a part of F({}, {})", M, R, Full, R));
  constexpr auto matrices = cook_toom<M, R, Full>();
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
    EXPECT_EQ(matrices.filter[p], (cook_toom<Full, R>().filter[p])) << p;
  }
}

TEST(CookToom, CorrelatesWithBalancedRows) {
  correlate<2, 3>();
  correlate<4, 3>();
  correlate<2, 5>();
  correlate<4, 5>();
  // The rest of an image, with the same filters.
  correlate<1, 3, 2>();
  correlate<1, 3, 4>();
  correlate<2, 3, 4>();
  correlate<3, 3, 4>();
  correlate<1, 5, 2>();
  correlate<1, 5, 4>();
  correlate<2, 5, 4>();
  correlate<3, 5, 4>();
}

struct Case {
  Shape x;
  std::int64_t kernel, filters, pad, stride = 1;
};

ConvolutionSpec spec_of(const Case& c, Type type = Type::f32) {
  return {.input = {c.x, type},
          .filters = c.filters,
          .kernel = c.kernel,
          .stride = c.stride,
          .pad = c.pad};
}

std::string name_of_case(const Case& c) {
  return fmt::format("{}x{}x{}x{}_to_{}_kernel_{}_pad_{}_stride_{}", c.x[0], c.x[1], c.x[2], c.x[3],
                     c.filters, c.kernel, c.pad, c.stride);
}

// Whole tiles and each rest in each direction, fewer and more channels than a block of 64,
// incomplete registers, several blocks of tiles.
const std::vector<Case> kCases = {
    {{2, 12, 12, 64}, 5, 64, 2}, {{3, 8, 8, 16}, 5, 32, 2},  {{1, 5, 6, 80}, 5, 16, 0},
    {{1, 1, 1, 16}, 5, 16, 2},   {{1, 9, 7, 16}, 5, 16, 4},  {{2, 7, 9, 48}, 3, 80, 1},
    {{7, 3, 3, 160}, 3, 144, 1}, {{1, 11, 4, 16}, 3, 32, 2}, {{2, 6, 6, 16}, 3, 16, 0},
    {{40, 5, 5, 16}, 3, 16, 1},  {{1, 1, 3, 16}, 3, 16, 1},  {{2, 9, 7, 24}, 3, 40, 1},
    {{1, 5, 5, 91}, 5, 31, 2},   {{3, 4, 4, 17}, 3, 155, 1}, {{1, 5, 5, 17}, 3, 32, 1},
    {{1, 5, 5, 32}, 3, 17, 1},   {{3, 5, 6, 90}, 3, 18, 1},  {{30, 7, 7, 64}, 3, 64, 1},
    {{9, 6, 11, 32}, 3, 48, 1},  {{2, 10, 6, 16}, 5, 32, 2},
};

AffineOutcome run(const ConvolutionSpec& spec, AffinePlan& plan, int threads) {
  return run_affine(*make_cpu_device(threads), plan,
                    {.x = spec.input.x,
                     .w = spec.weights(),
                     .y = spec.output(),
                     .type = spec.input.type,
                     .positive = true});
}

/// y, dx, dw and db by plain sums over the inputs in `in`. They take most of the time and are kept,
/// because all kernels get the same inputs.
const AffineOutcome& reference(const ConvolutionSpec& spec, const AffineOutcome& in) {
  static std::map<std::vector<Values>, AffineOutcome> known;
  Values numbers;
  for (const std::int64_t number : {spec.input.x[1], spec.input.x[2], spec.kernel, spec.stride,
                                    spec.pad, std::int64_t{spec.relu}})
    numbers.push_back(static_cast<double>(number));
  const auto [place, fresh] = known.try_emplace({in.x, in.w, in.b, in.dy, numbers});
  AffineOutcome& r = place->second;
  if (!fresh) return r;
  r = {.y = Values(in.y.size()),
       .dx = Values(in.dx.size()),
       .dw = Values(in.dw.size()),
       .db = Values(in.db.size())};
  for_products(convolution_of(spec), [&](std::int64_t x, std::int64_t w, std::int64_t y) {
    r.y[y] += in.x[x] * in.w[w];
    r.dx[x] += in.dy[y] * in.w[w];
    r.dw[w] += in.dy[y] * in.x[x];
  });
  for (std::size_t i = 0; i < r.y.size(); ++i) {
    const std::size_t filter = i % r.db.size();
    r.db[filter] += in.dy[i];
    r.y[i] += in.b[filter];
    if (spec.relu) r.y[i] = std::max(r.y[i], 0.0);
  }
  return r;
}

/// Largest relative errors.
struct Bounds {
  double y, dx, dw, db = 1e-6;
};

/// Expects plain sums within `bounds`, and the same bits on several threads: of all results, or
/// only of the gradients of weights and biases, if the others are oneDNN's.
void expect_plain_sums(const ConvolutionSpec& spec, AffinePlan& plan, const Bounds& bounds,
                       bool all) {
  const AffineOutcome o = run(spec, plan, 1), &right = reference(spec, o);
  const double errors[] = {relative_error(o.y, right.y), relative_error(o.dx, right.dx),
                           relative_error(o.dw, right.dw), relative_error(o.db, right.db)};
  fmt::print("{} {}: relative RMS error forward {:.1e}, data {:.1e}, weights {:.1e}\n",
             plan.implementation(), name_of(spec.input.type), errors[0], errors[1], errors[2]);
  EXPECT_LT(errors[0], bounds.y) << "forward";
  EXPECT_LT(errors[1], bounds.dx) << "backward data";
  EXPECT_LT(errors[2], bounds.dw) << "backward weights";
  EXPECT_LT(errors[3], bounds.db) << "bias";
  for (const int threads : {2, 3}) {
    const AffineOutcome other = run(spec, plan, threads);
    if (all) {
      EXPECT_EQ(other.y, o.y) << threads;
      EXPECT_EQ(other.dx, o.dx) << threads;
    }
    EXPECT_EQ(other.dw, o.dw) << threads;
    EXPECT_EQ(other.db, o.db) << threads;
  }
}

/// The bounds of oneDNN's y and dx, which have the type of x, and of the project's own sums.
Bounds own_weights_gradient(Type type) {
  return type == Type::f32 ? Bounds{1e-6, 1e-6, 1e-6} : Bounds{4e-3, 4e-3, 1e-6};
}

/// Expects that `serves` is true of `good`, and false with any of `changes`.
void expect_serves_only(const ConvolutionSpec& good,
                        const std::function<bool(const ConvolutionSpec&)>& serves,
                        const std::vector<void (*)(ConvolutionSpec&)>& changes) {
  EXPECT_TRUE(serves(good));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ConvolutionSpec spec = good;
    changes[i](spec);
    EXPECT_FALSE(serves(spec)) << "change " << i;
  }
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
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const bool relu : {false, true}) {
      if (type != Type::f32 && !relu) continue;  // most time goes to the plain sums
      SCOPED_TRACE(fmt::format("{} {}", name_of(type), relu ? "relu" : "linear"));
      ConvolutionSpec spec = spec_of(c, type);
      spec.relu = relu;
      const auto plan = (tile == 2 ? kernels.winograd2 : kernels.winograd4)(spec);
      ASSERT_NE(plan, nullptr);
      const bool rounded = multiplies_bf16(set) && type == Type::bf16 && c.kernel == 3 &&
                           c.x[3] % 2 == 0 && c.filters % 2 == 0;
      EXPECT_EQ(plan->implementation(), fmt::format("Winograd F({0}x{0},{1}x{1}){2}", tile,
                                                    c.kernel, rounded ? ", products of bf16" : ""));
      // bf16: the rounding of y and dx.
      const double bound = bound_of(tile, c.kernel, rounded),
                   rounding = type == Type::f32 ? 0 : 3e-3;
      expect_plain_sums(spec, *plan, {bound + rounding, bound + rounding, bound}, /*all=*/true);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Winograd, testing::ValuesIn(choices()), [](const auto& info) {
  return fmt::format("{}_tile_{}_{}", info.param.set, info.param.tile, name_of_case(info.param.c));
});

/// The kernels of this processor.
const Kernels& own_kernels() { return use_instruction_set("auto").kernels(); }

TEST(Winograd, PropagatesNan) {
  ConvolutionSpec spec = spec_of({{1, 4, 4, 16}, 3, 16, 1}, Type::bf16);
  spec.relu = true;
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  const auto plan = own_kernels().winograd4(spec);
  Tensor x(*device, spec.input.x, Type::bf16), y(*device, spec.output(), Type::bf16),
      w(*device, spec.weights(), Type::f32), b(*device, {16}, Type::f32);
  w.set(Values(w.view.count(), 1));
  b.set(Values(16));
  y.set(Values(y.view.count()));
  const Memory scratch = device->allocate(plan->scratch_bytes(), Place::device);
  plan->forward(*stream, x.view, w.view, b.view, y.view, scratch.get());
  for (const double value : y.values()) EXPECT_TRUE(std::isnan(value));
}

TEST(Winograd, RefusesUnsupportedLayers) {
  const auto serves = [](const ConvolutionSpec& spec) {
    EXPECT_EQ(own_kernels().winograd2(spec) == nullptr, own_kernels().winograd4(spec) == nullptr);
    return own_kernels().winograd4(spec) != nullptr;
  };
  expect_serves_only(
      spec_of({{8, 12, 12, 64}, 5, 64, 2}), serves,
      {[](auto& spec) { spec.stride = 2; }, [](auto& spec) { spec.dilation = 2; },
       [](auto& spec) { spec.groups = 2; }, [](auto& spec) { spec.one_dimensional = true; },
       [](auto& spec) { spec.kernel = 1; }, [](auto& spec) { spec.kernel = 7; },
       [](auto& spec) { spec.pad = 5; }, [](auto& spec) { spec.filters = 7; },
       [](auto& spec) { spec.filters = 71; },
       [](auto& spec) {
         spec.input.x = {8, 12, 12, 3};
       }});
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
  const ConvolutionSpec spec = spec_of(GetParam(), Type::bf16);
  const auto plan = make_cpu_device(1, "matrix_units")->convolution(spec);
  ASSERT_NE(plan->implementation().find("matrix units"), std::string::npos);
  expect_plain_sums(spec, *plan, own_weights_gradient(Type::bf16), /*all=*/false);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatrixUnits, testing::ValuesIn(kTileCases),
                         [](const auto& info) { return name_of_case(info.param); });

TEST(MatrixUnits, LeaveOtherLayersToDirectSums) {
  expect_serves_only(
      spec_of({{8, 12, 12, 64}, 5, 64, 2}, Type::bf16), matrix_units_serve,
      {[](auto& spec) { spec.input.type = Type::f32; },
       [](auto& spec) { spec.input.training = false; }, [](auto& spec) { spec.stride = 2; },
       [](auto& spec) { spec.dilation = 2; }, [](auto& spec) { spec.groups = 2; },
       [](auto& spec) { spec.one_dimensional = true; }});
}

// Few and many blocks of sums, filters in one register and in several, cut images.
const std::vector<Case> kLineCases = {
    {{5, 10, 11, 3}, 5, 64, 2}, {{2, 7, 6, 1}, 3, 32, 0}, {{1, 1, 1, 3}, 1, 16, 0},
    {{3, 9, 3, 7}, 3, 80, 2},   {{2, 8, 8, 3}, 7, 24, 3}, {{9, 5, 4, 2}, 2, 16, 0},
    {{1, 3, 99, 16}, 3, 16, 1}, {{70, 6, 6, 3}, 3, 8, 1},
};

/// Kernels of each instruction set for the gradient of weights; the rest is oneDNN's.
class OwnWeightsGradient : public testing::TestWithParam<std::string_view> {
 protected:
  using Make = std::unique_ptr<AffinePlan> (*)(std::unique_ptr<AffinePlan>, const ConvolutionSpec&);
  static void check(const ConvolutionSpec& spec, Make make, bool serves, std::string_view ending) {
    const auto plan = make(make_cpu_device(1, "direct")->convolution(spec), spec);
    ASSERT_EQ(plan->implementation().ends_with(ending), serves);
    if (serves)
      expect_plain_sums(spec, *plan, own_weights_gradient(spec.input.type), /*all=*/false);
  }
  static const Kernels& kernels() { return set_called(GetParam()).kernels(); }
};

TEST_P(OwnWeightsGradient, ByLinesOnAnyThreads) {
  if (!processor_has(GetParam())) GTEST_SKIP() << "skipped: this processor has no " << GetParam();
  for (const Case& c : kLineCases) {
    SCOPED_TRACE(name_of_case(c));
    check(spec_of(c), kernels().lines, c.filters % 16 == 0, "weights gradient by lines");
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, OwnWeightsGradient, testing::ValuesIn(kSets),
                         [](const auto& info) { return std::string(info.param); });

TEST(Lines, LeaveOtherLayersToOneDnn) {
  const auto serves = [](const ConvolutionSpec& spec) {
    return make_cpu_device(1, "lines")->convolution(spec)->implementation().ends_with("by lines");
  };
  expect_serves_only(spec_of({{2, 12, 12, 3}, 5, 64, 2}), serves,
                     {[](auto& spec) { spec.input.training = false; },
                      [](auto& spec) { spec.stride = 2; }, [](auto& spec) { spec.dilation = 2; },
                      [](auto& spec) { spec.filters = 63, spec.groups = 3; },
                      [](auto& spec) { spec.filters = 20; }});
  ConvolutionSpec line = spec_of({{2, 1, 12, 3}, 5, 64, 2});
  line.one_dimensional = true;
  EXPECT_TRUE(serves(line));
}

TEST(Depthwise, LeavesOtherLayersToDirectSums) {
  ConvolutionSpec good = spec_of({{2, 9, 9, 32}, 5, 32, 2});
  good.groups = 32;
  const auto serves = [](const ConvolutionSpec& spec) {
    return make_cpu_device(1)->convolution(spec)->implementation() == "depthwise";
  };
  expect_serves_only(good, serves, {[](auto& spec) { spec.groups = 16; }});
}

TEST(Convolutions, ChooseOnlyByShapeAndType) {
  if (library::name().empty()) GTEST_SKIP() << "skipped: this build has no oneDNN";
  const auto engine_text = [](std::string_view name, const ConvolutionSpec& spec,
                              std::string_view arithmetic = "portable") {
    return make_cpu_device(1, name, "auto", arithmetic)->convolution(spec)->implementation();
  };
  const ConvolutionSpec large = spec_of({{8, 12, 12, 64}, 5, 64, 2}),
                        small = spec_of({{8, 12, 12, 16}, 3, 16, 1}),
                        medium = spec_of({{8, 16, 16, 32}, 3, 32, 1});
  EXPECT_EQ(engine_text("auto", large), "Winograd F(4x4,5x5)");
  EXPECT_EQ(engine_text("auto", medium), "Winograd F(4x4,3x3)");
  EXPECT_EQ(engine_text("auto", small), "Winograd F(4x4,3x3)");
  // Beside oneDNN, transforms of 16 channels pay if registers have 8 floats, not if they have 16.
  EXPECT_EQ(engine_text("auto", small, "fast").starts_with("oneDNN"), own_kernels().lanes == 16);
  // Transforms do not pay for few tiles or for a single output.
  const auto of = [](std::int64_t batch, std::int64_t edge) {
    return spec_of({{batch, edge, edge, 256}, 3, 256, 1});
  };
  EXPECT_TRUE(engine_text("auto", of(1, 8)).starts_with("portable"));
  EXPECT_TRUE(engine_text("auto", of(1, 8), "fast").starts_with("oneDNN"));
  EXPECT_TRUE(engine_text("auto", of(16, 8)).starts_with("Winograd"));
  EXPECT_TRUE(engine_text("auto", of(500, 1)).starts_with("portable"));
  EXPECT_TRUE(engine_text("direct", large).starts_with("portable"));
  EXPECT_TRUE(engine_text("direct", large, "fast").starts_with("oneDNN"));
  const auto by_lines = [&](std::int64_t channels) {
    return engine_text("auto", spec_of({{8, 24, 24, channels}, 5, 64, 2})).ends_with("by lines");
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
  expect_error({"too large", "--arithmetic fast"}, [&] {
    engine_text("direct", spec_of({{1, 40000, 40000, 2}, 3, 16, 1}));
  });
  EXPECT_NE(make_cpu_device(1, "direct")->arithmetic(Type::f32),
            make_cpu_device(1)->arithmetic(Type::f32));
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
