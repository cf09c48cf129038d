// The same bits on every processor. The results of elementwise kernels are recorded as CRC-32C, so
// builds for other processors, compilers and C libraries can compare. The kernels that are compiled
// once per instruction set are compared with each other.

#include <gtest/gtest.h>
#include <omp.h>

#include <cfenv>
#include <cstring>
#include <map>
#include <vector>

#ifdef __SSE__
#include <immintrin.h>
#endif

#include "net/layers.h"
#include "net/loss.h"
#include "src/base/crc32c.h"
#include "src/data/loader.h"
#include "src/device/cpu/kernels.h"
#include "tests/support/affine.h"
#include "tests/support/instruction_sets.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

/// The CRC of the values as fp32, after `before`.
template <class Number>
std::uint32_t crc_of(const std::vector<Number>& values, std::uint32_t before = 0) {
  std::vector<float> numbers(values.begin(), values.end());
  return crc32c({reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)},
                before);
}

/// The CRC of y, dx and the gradients of the parameters.
std::uint32_t crc_of_layer(Layer& layer, const Shape& shape) {
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  Random random(7, Purpose::generate, 0, 0);
  Setup setup(*device, Type::f32, true, true, "");
  const Shape y_shape = layer.setup(setup, shape);
  Tensor x(*device, shape, Type::f32), dx(*device, shape, Type::f32),
      y(*device, y_shape, Type::f32), dy(*device, y_shape, Type::f32);
  x.fill(random, 4);
  dy.fill(random, 1);
  std::vector<Tensor> weights, gradients;
  std::vector<View> weight_views, gradient_views;
  for (const Parameter& parameter : setup.parameters) {
    weights.emplace_back(*device, parameter.shape, Type::f32);
    weights.back().fill(random, 0.5);
    weight_views.push_back(weights.back().view);
    gradients.emplace_back(*device, parameter.shape, Type::f32);
    gradient_views.push_back(gradients.back().view);
  }
  const Memory position = device->allocate(sizeof(std::int64_t), Place::device),
               saved = device->allocate(setup.saved_bytes + 1, Place::device),
               scratch = device->allocate(setup.scratch_bytes + 1, Place::device);
  const TrainingBatch batch{.seed = 1,
                            .position = reinterpret_cast<const std::int64_t*>(position.get())};
  LayerCall call{.stream = stream.get(),
                 .weights = weight_views,
                 .gradients = gradient_views,
                 .saved = saved.get(),
                 .scratch = scratch.get(),
                 .batch = &batch};
  layer.forward(call, x.view, y.view);
  stream->synchronize();
  std::uint32_t crc = crc_of(y.values());
  layer.backward(call, x.view, y.view, dy.view, dx.view);
  stream->synchronize();
  crc = crc_of(dx.values(), crc);
  for (const Tensor& gradient : gradients) crc = crc_of(gradient.values(), crc);
  return crc;
}

TEST(Bits, OfLayersAreRecorded) {
  struct Row {
    const char* name;
    std::unique_ptr<Layer> layer;
    std::uint32_t recorded;
  };
  std::vector<Row> rows;
  const auto add = [&](const char* name, std::unique_ptr<Layer> layer, std::uint32_t recorded) {
    rows.push_back({name, std::move(layer), recorded});
  };
  add("gelu", gelu(), 0x4f66e133);
  add("silu", silu(), 0xb5cfea6b);
  add("hard_sigmoid", hard_sigmoid(), 0x9f1d14fb);
  add("hard_swish", hard_swish(), 0xe89e5c62);
  add("rescale", rescale(0.3f, 0.7f), 0x86fec327);
  add("softmax", softmax(), 0x2aa2d9a5);
  add("layer_norm", layer_norm(), 0xadc97e92);
  add("layer_scale", layer_scale(0.1f), 0xc0e1260b);
  add("batch_norm", batch_norm(), 0x72e25d55);
  add("average_pool", average_pool(3, 2), 0xc12c5f64);
  add("global_average_pool", global_average_pool(), 0xa1028686);
  add("response_norm", response_norm(4, 1, 0.3f, 0.75f), 0x1e8afb76);
  for (const auto& [name, layer, recorded] : rows)
    EXPECT_EQ(crc_of_layer(*layer, {9, 7, 5, 35}), recorded) << name;
}

TEST(Bits, OfTheLossAreRecorded) {
  constexpr std::int64_t kSamples = 67, kClasses = 37;
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  Random random(3, Purpose::generate, 0, 0);
  Tensor logits(*device, {kSamples, kClasses}, Type::f32),
      gradient(*device, {kSamples, kClasses}, Type::f32);
  logits.fill(random, 30);
  std::vector<std::int32_t> labels(kSamples);
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random.below(kClasses));
  Score score;
  softmax_cross_entropy(*stream, {.logits = logits.view,
                                  .labels = {labels.data(), {kSamples}, Type::i32},
                                  .score = &score,
                                  .gradient = gradient.view,
                                  .scale = 0.7f,
                                  .modifiers = {{}, {}, {0.1f}}});
  EXPECT_EQ(crc_of(gradient.values()), 0x702167b6u);
  EXPECT_EQ(score.loss_fraction, 145175922688);
}

TEST(Bits, OfOptimizersAreRecorded) {
  // Muon multiplies matrices, so oneDNN decides its bits.
  const std::map<std::string_view, std::uint32_t> recorded = {
      {"sgd", 0xb374924a},  {"adam", 0xf0194ef9},    {"adamw", 0xbb61d9e0}, {"nadam", 0x5b711e3b},
      {"lars", 0xcfed9581}, {"rmsprop", 0x359edc1b}, {"lamb", 0xb19757d7},
  };
  for (const OptimizerEntry& entry : optimizers()) {
    if (entry.name == "muon") continue;
    ASSERT_TRUE(recorded.contains(entry.name)) << entry.name;
    OptimizerOptions options;
    for (const OptimizerOption& option : entry.options)
      if (option.name == "momentum") options["momentum"] = 0.9f;
    const Layout layout = small_layout();
    const auto optimizer = make_optimizer(entry.name, options);
    const auto device = make_cpu_device(1);
    optimizer->plan(*device, layout);
    Arenas arenas(layout, *optimizer, 0.01f);
    Random random(5, Purpose::generate, 0, 0);
    for (std::vector<float>* arena : {&arenas.parameters, &arenas.average})
      for (float& value : *arena) value = random.uniform(-1, 1);
    for (int step = 0; step < 3; ++step) {
      for (float& value : arenas.gradients) value = random.uniform(-1, 1);
      arenas.step(layout, *optimizer, rates_of(*optimizer, step));
    }
    EXPECT_EQ(crc_of(arenas.average, crc_of(arenas.parameters)), recorded.at(entry.name))
        << entry.name;
  }
}

ConvolutionSpec convolution_of(const Shape& x, std::int64_t filters, std::int64_t kernel) {
  return {.input = {.x = x}, .filters = filters, .kernel = kernel, .pad = kernel / 2};
}

TEST(Bits, AreTheSameInAllInstructionSets) {
  using Make = std::unique_ptr<AffinePlan> (*)(const Kernels&, const ConvolutionSpec&);
  const Make winograd2 = [](const Kernels& kernels, const auto& spec) {
    return kernels.winograd2(spec);
  };
  const Make winograd4 = [](const Kernels& kernels, const auto& spec) {
    return kernels.winograd4(spec);
  };
  const Make lines = [](const Kernels& kernels, const auto& spec) {
    return kernels.lines(make_cpu_device(1, "direct")->convolution(spec), spec);
  };
  struct Row {
    ConvolutionSpec spec;
    Make make;
    bool only_weights = false;
  };
  const std::vector<Row> rows = {
      {convolution_of({2, 9, 7, 48}, 80, 3), winograd4},
      {convolution_of({2, 9, 7, 24}, 91, 3), winograd2},
      {convolution_of({60, 7, 6, 16}, 80, 3), winograd4},  // blocks depend on the registers
      {convolution_of({2, 12, 12, 64}, 64, 5), winograd4},
      {convolution_of({3, 5, 6, 17}, 32, 5), winograd2},
      {convolution_of({3, 10, 11, 3}, 48, 5), lines, true},
      {convolution_of({2, 5, 9, 8}, 8, 3), winograd4},       // too few channels
      {convolution_of({3, 10, 11, 3}, 24, 5), lines, true},  // no whole registers of 16
  };
  for (const auto& [spec, make, only_weights] : rows) {
    SCOPED_TRACE(fmt::format("{} to {}", spec.input.x.text(), spec.filters));
    std::vector<AffineOutcome> outcomes;
    std::vector<std::string> names;
    for (const std::string_view set : kSets) {
      if (!processor_has(set)) continue;
      const auto plan = make(set_called(set).kernels(), spec);
      names.push_back(plan != nullptr ? plan->implementation() : "none");
      EXPECT_EQ(names.back(), names.front()) << set;
      if (plan == nullptr) continue;
      outcomes.push_back(run_affine(*make_cpu_device(1), *plan,
                                    {.x = spec.input.x, .w = spec.weights(), .y = spec.output()}));
      const AffineOutcome &first = outcomes.front(), &own = outcomes.back();
      EXPECT_EQ(own.dw, first.dw) << set;
      EXPECT_EQ(own.db, first.db) << set;
      if (only_weights) continue;
      EXPECT_EQ(own.y, first.y) << set;
      EXPECT_EQ(own.dx, first.dx) << set;
    }
  }
}

TEST(Bits, OfResponseNormsAreTheSameInAllInstructionSets) {
  const auto device = make_cpu_device(1);
  const auto stream = device->stream();
  const Shape shape{3, 4, 5, 37};
  std::vector<Values> results;
  // With the last bias, powers of what lies behind the last channel are infinite.
  for (const auto& [beta, bias] : {std::pair(0.75f, 1.0f), {0.5f, 1.0f}, {0.75f, 1e-30f}}) {
    results.clear();
    for (const std::string_view set : kSets) {
      if (!processor_has(set)) continue;
      const auto plan = set_called(set).kernels().response_norm(
          {.input = {.x = shape}, .radius = 3, .bias = bias, .alpha = 0.3f, .beta = beta});
      Random random(7, Purpose::generate, 0, 0);
      Tensor x(*device, shape, Type::f32), y(*device, shape, Type::f32),
          dy(*device, shape, Type::f32), dx(*device, shape, Type::f32);
      x.fill(random, 4);
      dy.fill(random, 1);
      for (std::int64_t i = 0; i < shape.count(); ++i)
        if (i % 37 > 33) x.view.as<float>()[i] = 0;
      plan->forward(*stream, x.view, y.view);
      plan->backward(*stream, x.view, dy.view, dx.view, nullptr);
      results.push_back(y.values());
      for (const double value : dx.values()) results.back().push_back(value);
      EXPECT_EQ(results.back(), results.front()) << set;
      EXPECT_TRUE(std::ranges::all_of(results.back(), [](double v) { return std::isfinite(v); }));
    }
  }
}

/// Leaves the calling thread's rounding as it was.
class ChangedRounding {
 public:
  ChangedRounding() {
    std::fegetenv(&before_);
    std::fesetround(FE_UPWARD);
#ifdef __SSE__
    _mm_setcsr(_mm_getcsr() | 0x8040);  // denormal numbers become 0
#endif
  }
  ~ChangedRounding() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

TEST(Bits, NeedNoDefaultRoundingAtTheStart) {
  const ChangedRounding changed;
  const auto device = make_cpu_device(3);
  std::vector<int> modes(3, -1);
  std::vector<float> products(3);
  volatile const float least = 0x1p-126f, half = 0.5f;
#pragma omp parallel num_threads(3)
  {
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    modes[thread] = std::fegetround();
    products[thread] = least * half;
  }
  EXPECT_EQ(modes, std::vector<int>(3, FE_TONEAREST));
  EXPECT_EQ(products, std::vector<float>(3, 0x1p-127f));
}

/// Samples of two values that depend on the rounding and on denormal numbers.
class Quotients : public Dataset {
 public:
  std::int64_t size() const override { return 8; }
  int classes() const override { return 1; }
  Shape sample_shape() const override { return {1, 1, 1, 2}; }
  std::int32_t label(std::int64_t) const override { return 0; }
  std::string describe() const override { return "quotients"; }
  void read(std::int64_t, Random*, void* out, Type) const override {
    volatile const float least = 0x1p-126f, five = 5, three = 3;
    static_cast<float*>(out)[0] = five / three;
    static_cast<float*>(out)[1] = least / 2;
  }
};

TEST(Bits, OfSamplesNeedNoDefaultRounding) {
  std::vector<float> values(8);
  {
    const ChangedRounding changed;
    const Quotients quotients;
    HostLoader loader(quotients, {.global_batch = 4, .workers = 2});
    const View images = loader.next().images;
    std::memcpy(values.data(), images.data, images.bytes());
  }
  for (std::size_t i = 0; i < values.size(); i += 2) {
    EXPECT_EQ(values[i], 0x1.aaaaaap+0f);
    EXPECT_EQ(values[i + 1], 0x1p-127f);
  }
}

}  // namespace
}  // namespace lockstep
