// Every layer against itself in double: forward against a plain reference, gradients against
// central differences of that reference.

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "src/base/random.h"
#include "src/device/arena.h"
#include "tests/support/async_device.h"
#include "tests/support/tensor.h"
#include "tests/unit/layer_cases.h"

namespace lockstep {
namespace {

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// d(dy . y) / d(values), by central differences of the reference, at every `stride`-th place;
/// `values` is a part of `in`.
Values numeric_gradient(const Reference& reference, Inputs& in, Values& values, const Values& dy,
                        std::size_t stride) {
  constexpr double kStep = 1e-6;
  Values gradient;
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double middle = values[i];
    values[i] = middle + kStep;
    const double above = dot(reference(in), dy);
    values[i] = middle - kStep;
    const double below = dot(reference(in), dy);
    values[i] = middle;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

Values every(const Values& values, std::size_t stride) {
  Values result;
  for (std::size_t i = 0; i < values.size(); i += stride) result.push_back(values[i]);
  return result;
}

/// One forward and backward of a case on random values.
struct Outcome {
  Inputs in;
  Values upstream, y, dx;
  std::vector<std::string> names;
  std::vector<bool> trained;
  std::vector<Values> gradients;
};

Outcome run_case(const LayerCase& c, Type type, Device* device, bool coarse) {
  const std::unique_ptr<Stream> stream = device->stream();
  Random random(7, Purpose::generate, 0, 0);
  Setup setup(*device, type, true, true, "");
  const auto layer = c.make();
  const Shape y_shape = layer->setup(setup, c.x);

  Tensor x(*device, c.x, type), y(*device, y_shape, type), dy(*device, y_shape, type),
      dx(*device, c.x, type);
  x.fill(random, 1, coarse);
  dy.fill(random, 1, coarse);
  Outcome outcome;
  std::vector<Tensor> weights, gradients;
  std::vector<View> weight_views, gradient_views;
  const Memory position = device->allocate(sizeof(std::int64_t), Place::device);  // of 0
  const TrainingBatch batch{.seed = 1,
                            .position = reinterpret_cast<const std::int64_t*>(position.get())};
  LayerCall call;
  call.stream = stream.get();
  call.batch = &batch;
  for (const Parameter& parameter : setup.parameters) {
    weights.emplace_back(*device, parameter.shape, Type::f32);
    weights.back().fill(random, 0.5, coarse);
    gradients.emplace_back(*device, parameter.shape, Type::f32);
    weight_views.push_back(weights.back().view);
    gradient_views.push_back(gradients.back().view);
    outcome.names.push_back(parameter.name);
    outcome.trained.push_back(parameter.trained());
  }
  call.weights = weight_views;
  call.gradients = gradient_views;
  const Memory saved = device->allocate(setup.saved_bytes + 1, Place::device),
               scratch = device->allocate(setup.scratch_bytes + 1, Place::device);
  call.saved = saved.get();
  call.scratch = scratch.get();

  outcome.in = {c.x, x.values(), {}};
  for (Tensor& weight : weights) outcome.in.parameters.push_back(weight.values());
  outcome.upstream = dy.values();
  layer->forward(call, x.view, y.view);
  stream->synchronize();
  outcome.y = y.values();
  layer->backward(call, x.view, y.view, dy.view, dx.view);
  stream->synchronize();
  outcome.dx = dx.values();
  if (layer->keeps_dy()) {
    EXPECT_EQ(dy.values(), outcome.upstream);
  }
  for (Tensor& gradient : gradients) outcome.gradients.push_back(gradient.values());
  return outcome;
}

Outcome run_case(const LayerCase& c, Type type, int threads, bool coarse) {
  return run_case(c, type, make_cpu_device(threads).get(), coarse);
}

class EveryLayer : public testing::TestWithParam<LayerCase> {};

void check_against_double(const LayerCase& c, Device* device, double tolerance) {
  Outcome o = run_case(c, Type::f32, device, false);
  EXPECT_LT(relative_error(o.y, c.reference(o.in)), tolerance) << "forward";
  const auto compare = [&](const char* what, const Values& gradient, Values& values) {
    const std::size_t stride = values.size() / 150 + 1;
    EXPECT_LT(relative_error(every(gradient, stride),
                             numeric_gradient(c.reference, o.in, values, o.upstream, stride)),
              tolerance)
        << what;
  };
  compare("dx", o.dx, o.in.x);
  for (std::size_t p = 0; p < o.names.size(); ++p) {
    if (o.trained[p]) compare(o.names[p].c_str(), o.gradients[p], o.in.parameters[p]);
  }
}

#ifndef __SANITIZE_THREAD__  // it does not see how OpenMP orders its team
TEST_P(EveryLayer, GradientsMatchCentralDifferencesInDouble) {
  check_against_double(GetParam(), make_cpu_device(1).get(), GetParam().tolerance);
}
#endif

/// Compares y and all gradients.
void expect_near(const Outcome& is, const Outcome& wanted, double tolerance) {
  EXPECT_LT(relative_error(is.y, wanted.y), tolerance);
  EXPECT_LT(relative_error(is.dx, wanted.dx), tolerance);
  for (std::size_t p = 0; p < wanted.names.size(); ++p)
    EXPECT_LT(relative_error(is.gradients[p], wanted.gradients[p]), tolerance) << wanted.names[p];
}
void expect_equal(const Outcome& is, const Outcome& wanted) {
  EXPECT_EQ(is.y, wanted.y);
  EXPECT_EQ(is.dx, wanted.dx);
  EXPECT_EQ(is.gradients, wanted.gradients);
}

#ifndef __SANITIZE_THREAD__
TEST_P(EveryLayer, ThreadsDoNotChangeIt) {
  expect_equal(run_case(GetParam(), Type::f32, 3, false),
               run_case(GetParam(), Type::f32, 1, false));
}
#endif

/// Whether there is no kernel of this type, as oneDNN or the plans say. Other errors are faults.
bool no_kernel(const std::exception& error) {
  const std::string text = error.what();
  return text.find("could not create a primitive descriptor") != text.npos ||
         text.find("only portable fp32") != text.npos || text.find("fp32 or bf16") != text.npos;
}

TEST_P(EveryLayer, Bfloat16IsWithinItsRounding) {
  const LayerCase& c = GetParam();
  Outcome narrow;
  try {
    narrow = run_case(c, Type::bf16, 1, true);
  } catch (const std::exception& error) {
    if (!no_kernel(error)) throw;
    GTEST_SKIP() << "skipped: " << error.what();
  }
  expect_near(narrow, run_case(c, Type::f32, 1, true), c.narrow);
}

TEST_P(EveryLayer, IsBitwiseIdenticalOnAnAsynchronousDevice) {
  for (const Type type : {Type::f32, Type::bf16}) {
    Outcome at_once;
    try {
      at_once = run_case(GetParam(), type, 1, true);
    } catch (const std::exception& error) {
      if (!no_kernel(error)) throw;
      GTEST_SKIP() << "skipped: no bf16 kernel on this processor (" << error.what() << ")";
    }
    expect_equal(run_case(GetParam(), type, make_async_device().get(), true), at_once);
  }
}

INSTANTIATE_TEST_SUITE_P(Layers, EveryLayer, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Layers, SumsAreCutForAGpuWithinRounding) {
  for (const LayerCase& c : cases()) {
    const std::string name = c.name;
    const auto has = [&](const char* word) { return name.find(word) != name.npos; };
    if (!has("norm") && !has("attention") && !has("squeeze") && !has("layer_scale")) continue;
    SCOPED_TRACE(name);
    LayerCase large = c;
    large.x = c.x.with_batch(40 * c.x[0]);
    const Outcome cores = run_case(large, Type::f32, 1, false);
    const auto device = make_async_device({.most_delay_us = 0, .lanes = 1 << 17});
    expect_near(run_case(large, Type::f32, device.get(), false), cores, c.tolerance);
  }
}

TEST(Layers, AFusedActivationIsBitwiseThatOfALayer) {
  const auto norm = [](Activation activation) {
    return batch_norm({.epsilon = 0.25f, .activation = activation});
  };
  using Pair = std::pair<Activation, std::unique_ptr<Layer> (*)()>;
  for (const auto& [activation, layer] :
       {Pair{Activation::relu, relu}, Pair{Activation::gelu, gelu},
        Pair{Activation::hard_swish, hard_swish}}) {
    for (const Type type : {Type::f32, Type::bf16}) {
      SCOPED_TRACE(std::string(layer()->implementation()) + " " + name_of(type));
      LayerCase fused{"fused", [=, a = activation] { return norm(a); }, {}, {5, 7, 9, 83}},
          apart = fused;
      apart.make = [=, f = layer] { return chain(named(norm(Activation::none), f())); };
      expect_equal(run_case(fused, type, 1, true), run_case(apart, type, 1, true));
    }
  }
}

/// y of a layer without a backward pass; its parameters come from `random` and go to `in`.
Values forward_of(Layer& layer, Tensor& x, Inputs& in, Random& random, const TrainingBatch* batch) {
  const auto device = make_cpu_device(1);
  const std::unique_ptr<Stream> stream = device->stream();
  Setup setup(*device, Type::f32, false, false, "");
  Tensor y(*device, layer.setup(setup, x.view.shape), Type::f32);
  std::vector<Tensor> weights;
  std::vector<View> views;
  for (const Parameter& parameter : setup.parameters) {
    weights.emplace_back(*device, parameter.shape, Type::f32).fill(random, 1);
    views.push_back(weights.back().view);
    in.parameters.push_back(weights.back().values());
  }
  const Memory saved = device->allocate(setup.saved_bytes + 1, Place::device),
               scratch = device->allocate(setup.scratch_bytes + 1, Place::device);
  LayerCall call;
  call.stream = stream.get();
  call.weights = views;
  call.saved = saved.get();
  call.scratch = scratch.get();
  call.batch = batch;
  layer.forward(call, x.view, y.view);
  return y.values();
}

TEST(Layers, VarianceOfValuesFarFromZero) {
  // Squares around 0 would leave no digit of it.
  const auto device = make_cpu_device(1);
  Tensor x(*device, {4, 16, 16, 3}, Type::f32);
  Random random(5, Purpose::generate, 0, 0);
  x.fill(random, 1);
  Values values = x.values();
  for (double& value : values) value += 5000;
  x.set(values);
  Inputs in{x.view.shape, x.values(), {}};
  const TrainingBatch batch;
  const Values y = forward_of(*batch_norm({.epsilon = 1e-12f}), x, in, random, &batch);
  EXPECT_LT(relative_error(y, reference_batch_norm(1e-12)(in)), 1e-3);
}

TEST(Layers, NanPassesReluAndPool) {
  const auto device = make_cpu_device(1);
  Tensor x(*device, {1, 4, 4, 1}, Type::f32);
  Random random(1, Purpose::generate, 0, 0);
  x.fill(random, 1);
  Values values = x.values();
  values[0] = std::numeric_limits<double>::quiet_NaN();
  x.set(values);
  const std::unique_ptr<Layer> layers[] = {
      relu(), residual(named(rescale(1, 0)), {}, /*relu=*/true),
      batch_norm({.activation = Activation::relu}), max_pool(2, 2, /*relu=*/true)};
  for (const auto& layer : layers) {
    Inputs in;
    EXPECT_TRUE(std::isnan(forward_of(*layer, x, in, random, nullptr)[0]))
        << layer->implementation();
  }
}

}  // namespace
}  // namespace lockstep
