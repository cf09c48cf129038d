// Layers that are another in training than in evaluation: what is dropped belongs to the sample,
// and statistics are the batch's in training, the running ones in evaluation. And how layers are
// named and placed where they are composed.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "net/model.h"
#include "net/optimizer.h"
#include "src/base/random.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/layer_list.h"
#include "tests/support/wrapped_device.h"
#include "tests/support/written_ranges.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

/// A model of the layers that `build` gives, with arenas of its own, for fp32 samples of `sample`.
class Net {
 public:
  Net(NamedLayers (*build)(Shape, int), Shape sample, std::int64_t batch, bool training = true,
      int threads = 1)
      : device_(make_cpu_device(threads)),
        stream_(device_->stream()),
        model(*device_, {"net", "", sample, true, build}, sample.with_batch(batch), 10, Type::f32,
              training),
        parameters(model.layout().count),
        gradients(parameters.size()),
        images(model.input().count()) {
    initialize(model.layout(), 1, parameters.data());
    model.bind(parameters.data(), training ? gradients.data() : nullptr);
  }

  std::vector<float> train(const TrainingBatch& batch) {
    return values(model.forward(*stream_, view(), batch));
  }
  std::vector<float> evaluate() { return values(model.forward(*stream_, view())); }
  void backward(const std::vector<float>& upstream) {
    std::copy(upstream.begin(), upstream.end(), model.logits_gradient().as<float>());
    WrittenRanges ready(model.layout());
    model.backward(*stream_, view(), ready);
  }
  void fill(std::uint32_t index = 0) {
    Random random(1, Purpose::generate, 0, index);
    for (float& value : images) value = random.normal() + 0.5f;
  }
  float* at(std::vector<float>& arena, const std::string& name) {
    return arena.data() + parameter_named(model.layout(), name).range.begin;
  }
  View view() { return {images.data(), model.input(), Type::f32}; }

 private:
  static std::vector<float> values(View view) {
    return {view.as<float>(), view.as<float>() + view.count()};
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;

 public:
  Model model;
  std::vector<float> parameters, gradients, images;
};

constexpr std::int64_t kStart = 0;

template <bool kFrozen, bool kBiases>
NamedLayers two_affine(Shape, int) {
  const AffineInit init{.weight_deviation = 0.3f, .biases = kBiases, .frozen = kFrozen};
  return layers_of("conv", convolution(16, 3, /*relu=*/true, init), "dense",
                   dense(10, /*relu=*/false, init));
}

// The weights' gradients stay as they are, and those of the biases are computed.
TEST(Frozen, WeightsHaveNoGradient) {
  const Shape sample{1, 4, 4, 3};
  Net free(two_affine<false, true>, sample, 5), frozen(two_affine<true, true>, sample, 5),
      without(two_affine<true, false>, sample, 5);
  for (Net* net : {&free, &frozen, &without}) {
    std::fill(net->gradients.begin(), net->gradients.end(), 7.0f);
    net->fill();
    net->backward(net->train({1, &kStart}));
  }
  EXPECT_EQ(without.gradients, std::vector<float>(without.gradients.size(), 7.0f));
  for (const Parameter& parameter : free.model.layout().parameters) {
    const bool weights = parameter.name.ends_with("/weights");
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      const float wanted = weights ? 7 : free.gradients[i];
      ASSERT_NEAR(frozen.gradients[i], wanted, 1e-5 * std::abs(wanted)) << parameter.name;
      ASSERT_NE(free.gradients[i], 7) << parameter.name;
    }
  }
}

/// A frozen beginning, which itself contains layers.
NamedLayers frozen_below(Shape, int classes) {
  const AffineInit frozen{.weight_deviation = 0.3f, .biases = false, .frozen = true};
  const auto conv = [&](bool relu) { return convolution(16, 3, relu, frozen); };
  return layers_of("conv", conv(true), "block",
                   residual(layers_of("one", conv(true), "two", conv(false))), "logits",
                   dense(classes, /*relu=*/false, {.weight_deviation = 0.3f}));
}

/// Notes the specs whose input gradient is wanted.
class InputGradients : public WrappedDevice {
 public:
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    wanted |= spec.input.input_gradient;
    return WrappedDevice::convolution(spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    wanted |= spec.input.input_gradient;
    return WrappedDevice::dense(spec);
  }
  bool wanted = false;
};

TEST(Frozen, NothingBelowATrainedLayerIsComputedAndAllIsReported) {
  const Shape sample{1, 4, 4, 3};
  InputGradients device;
  Model model(device, {"net", "", sample, true, frozen_below}, sample.with_batch(2), 10, Type::f32,
              true);
  EXPECT_FALSE(device.wanted);
  std::vector<float> parameters(model.layout().count), gradients(parameters);
  model.bind(parameters.data(), gradients.data());
  std::vector<float> images(model.input().count());
  HostStream stream;
  const View view{images.data(), model.input(), Type::f32};
  model.forward(stream, view, {1, &kStart});
  WrittenRanges ready(model.layout());
  model.backward(stream, view, ready);
  EXPECT_EQ(ready.ranges, model.layout().layers);
}

NamedLayers one_dropout(Shape, int) { return layers_of("dropout", dropout(0.25f)); }

NamedLayers another_dropout(Shape, int) { return layers_of("other", dropout(0.25f)); }

/// The output of dropout for ones: samples from `position` on.
std::vector<float> mask(NamedLayers (*build)(Shape, int), std::int64_t batch, std::int64_t position,
                        std::int64_t offset = 0, std::uint64_t seed = 1) {
  Net net(build, {1, 3, 3, 7}, batch);
  std::fill(net.images.begin(), net.images.end(), 1.0f);
  return net.train({seed, &position, offset});
}

TEST(Dropout, MaskBelongsToTheSampleAndNotToItsBatch) {
  const std::vector<float> four = mask(one_dropout, 4, 70);
  std::vector<float> parts = mask(one_dropout, 1, 70);
  for (const std::int64_t first : {1, 2}) {
    const std::vector<float> part = mask(one_dropout, first == 1 ? 1 : 2, 70, first);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, four);
  const std::vector<float> first(four.begin(), four.begin() + 63);
  EXPECT_NE(first, std::vector<float>(four.begin() + 63, four.begin() + 126)) << "another sample";
  EXPECT_NE(first, mask(one_dropout, 1, 70 + (std::int64_t{1} << 32))) << "a later epoch";
  EXPECT_NE(first, mask(one_dropout, 1, 70, 0, 2)) << "another seed";
  EXPECT_NE(first, mask(another_dropout, 1, 70)) << "another layer";
}

NamedLayers one_stochastic_depth(Shape, int) { return layers_of("depth", stochastic_depth(0.25f)); }

TEST(StochasticDepth, DropsWholeSamplesWhereverTheyAre) {
  const std::vector<float> many = mask(one_stochastic_depth, 400, 70);
  int dropped = 0;
  for (std::size_t sample = 0; sample < 400; ++sample) {
    const float value = many[sample * 63];
    dropped += value == 0;
    ASSERT_TRUE(value == 0 || std::abs(value - 1 / 0.75f) < 1e-6) << value;
    for (std::size_t i = 1; i < 63; ++i) ASSERT_EQ(many[sample * 63 + i], value);
  }
  EXPECT_NEAR(dropped, 100, 35);
  const std::vector<float> part = mask(one_stochastic_depth, 2, 70, 5);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), many.begin() + 5 * 63));
  EXPECT_NE(many, mask(one_stochastic_depth, 400, 70, 0, 2)) << "another seed";
}

TEST(Dropout, DropsInTrainingOnlyAndScalesTheRest) {
  const std::vector<float> values = mask(one_dropout, 400, 0);
  const auto dropped = std::count(values.begin(), values.end(), 0.0f);
  for (const float value : values) {
    ASSERT_FLOAT_EQ(value, value == 0 ? 0 : 1 / 0.75f);
  }
  const auto count = static_cast<double>(values.size());
  EXPECT_NEAR(static_cast<double>(dropped) / count, 0.25, 4 * std::sqrt(0.25 * 0.75 / count));

  for (const bool training : {true, false}) {
    Net net(one_dropout, {1, 3, 3, 7}, 2, training);
    net.fill();
    EXPECT_EQ(net.evaluate(), net.images);
  }
}

NamedLayers dropout_in_front(Shape, int classes) {
  return layers_of("flat", dense(9, false, {}), "dropout", dropout(0.5f), "out",
                   dense(classes, false, {}));
}

TEST(Dropout, BackwardDropsWhatForwardDropped) {
  Net net(dropout_in_front, {1, 2, 2, 3}, 1);
  net.fill();
  const std::int64_t position = 5;
  net.train({1, &position});
  // out's gradient of weight (o, i) is dy of o times what went in at i.
  net.backward(std::vector<float>(10, 1.0f));
  const float *in = net.at(net.gradients, "out/weights"),
              *flat = net.at(net.gradients, "flat/biases");
  int dropped = 0;
  for (int i = 0; i < 9; ++i) {
    EXPECT_EQ(in[i] == 0, flat[i] == 0) << i;
    dropped += in[i] == 0;
  }
  EXPECT_GT(dropped, 0);
  EXPECT_LT(dropped, 9);
}

NamedLayers one_norm(Shape, int) {
  return layers_of("norm", batch_norm({.follow = 0.25f, .epsilon = 0.5f}));
}

TEST(BatchNorm, WritesItsShareOfMeanAndVariance) {
  constexpr std::int64_t kChannels = 3, kRows = 4 * 5 * 5;
  Net net(one_norm, {1, 5, 5, kChannels}, 4);
  net.fill();
  net.train({.seed = 1, .position = &kStart, .share = 0.125f});
  net.backward(std::vector<float>(net.images.size(), 1.0f));
  for (std::int64_t c = 0; c < kChannels; ++c) {
    double mean = 0, squares = 0;
    for (std::int64_t i = c; i < kRows * kChannels; i += kChannels)
      mean += net.images[i] / static_cast<double>(kRows);
    for (std::int64_t i = c; i < kRows * kChannels; i += kChannels)
      squares += std::pow(net.images[i] - mean, 2);
    EXPECT_NEAR(net.at(net.gradients, "norm/mean")[c], mean / 8, 1e-6);
    EXPECT_NEAR(net.at(net.gradients, "norm/variance")[c], squares / (kRows - 1) / 8, 1e-6);
  }

  net.at(net.parameters, "norm/mean")[1] = 2;
  net.at(net.parameters, "norm/variance")[1] = 3.5f;
  net.at(net.parameters, "norm/gamma")[1] = 6;
  net.at(net.parameters, "norm/beta")[1] = -1;
  const std::vector<float> y = net.evaluate();
  for (std::size_t i = 1; i < y.size(); i += kChannels)
    ASSERT_NEAR(y[i], (net.images[i] - 2) / 2 * 6 - 1, 1e-5);
  Net inference(one_norm, {1, 5, 5, kChannels}, 4, false);
  inference.parameters = net.parameters;
  inference.images = net.images;
  inference.model.bind(inference.parameters.data(), nullptr);
  EXPECT_EQ(inference.evaluate(), y);
}

TEST(BatchNorm, BitsDoNotDependOnThreads) {
  Net one(one_norm, {1, 40, 40, 20}, 8), three(one_norm, {1, 40, 40, 20}, 8, true, 3);
  const auto bits = [&](Net& net) {
    net.fill();
    auto y = net.train({1, &kStart});
    net.backward(net.images);
    y.insert(y.end(), net.gradients.begin(), net.gradients.end());
    return y;
  };
  EXPECT_EQ(bits(one), bits(three));
}

TEST(Statistics, FollowTheMeanOfAStepWithAnyOptimizer) {
  for (const OptimizerEntry& entry : optimizers()) {
    const Net net(one_norm, {1, 2, 2, 3}, 2);
    const auto optimizer = make_optimizer(entry.name, {});
    const Layout& layout = net.model.layout();
    Arenas arenas(layout, *optimizer, 0.5f);
    arenas.parameters = arenas.average = net.parameters;
    const Range mean = parameter_named(layout, "norm/mean").range;
    const auto first = static_cast<std::size_t>(mean.begin);
    std::fill_n(arenas.gradients.begin() + mean.begin, mean.count, 8.0f);
    const UpdateRates now{0.1f, 0.5f, optimizer->corrections(0)};
    arenas.step(layout, *optimizer, now);
    EXPECT_EQ(arenas.parameters[first], 2) << "a quarter of the way from 0 to 8";
    EXPECT_EQ(arenas.average[first], 1) << "half of the way from 0 to 2";
    arenas.step(layout, *optimizer, now);
    EXPECT_EQ(arenas.parameters[first], 3.5f);
    for (const auto& slot : arenas.slots)
      EXPECT_EQ(slot[first], 0) << entry.name << " has slots of it";
    HostStream stream;
    std::vector<double> parts(penalty_parts(layout));
    double decayed = -1;
    penalty(stream, layout, arenas.parameters.data(), decays(layout, 1).data(), parts.data(),
            &decayed);
    EXPECT_EQ(decayed, 0) << "neither gamma nor statistics decay";
    EXPECT_EQ(layout.trainable(), 6);
  }
}

NamedLayers nested(Shape, int classes) {
  auto row = layers_of("conv", convolution(3, 3, true, {}), "norm", batch_norm());
  auto block = residual(layers_of("row", chain(std::move(row))),
                        layers_of("conv", convolution(3, 1, false, {})));
  return layers_of("block", std::move(block), "out", dense(classes, false, {}));
}

TEST(Composed, ParametersAreNamedByTheirPathAndLieInTheOrderOfBackward) {
  Net net(nested, {1, 4, 4, 2}, 2);
  std::vector<std::string> names, layers;
  for (const Parameter& parameter : net.model.layout().parameters) names.push_back(parameter.name);
  EXPECT_EQ(names, (std::vector<std::string>{"out/weights", "out/biases", "block/row/norm/gamma",
                                             "block/row/norm/beta", "block/row/norm/mean",
                                             "block/row/norm/variance", "block/row/conv/weights",
                                             "block/row/conv/biases", "block/shortcut/conv/weights",
                                             "block/shortcut/conv/biases"}));
  for (const LayerSummary& layer : net.model.layers()) layers.push_back(layer.name);
  EXPECT_EQ(layers, (std::vector<std::string>{"block/shortcut/conv", "block/row/conv",
                                              "block/row/norm", "block/sum", "out"}));
  net.fill();
  net.train({1, &kStart});
  HostStream stream;
  WrittenRanges ready(net.model.layout());
  net.model.backward(stream, net.view(), ready);
  EXPECT_EQ(ready.ranges, net.model.layout().layers);
}

NamedLayers uneven(Shape, int) {
  return layers_of("block", residual(layers_of("conv", convolution(3, 3, true, {}))));
}

TEST(Composed, RefusesABranchOfAnotherShape) {
  expect_error({"block", "5x4x4x3", "5x4x4x2", "shortcut"}, [] { Net(uneven, {1, 4, 4, 2}, 5); });
}

}  // namespace
}  // namespace lockstep
