// Every model of the menu as a whole: its gradient against central differences of its loss, its
// memory plan, its initial weights, and inference that is training's forward pass bit for bit.
#include "net/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "net/layers.h"
#include "net/loss.h"
#include "net/optimizer.h"
#include "net/whitening.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "src/data/dataset.h"
#include "tests/support/files.h"
#include "tests/support/update.h"
#include "tests/support/wrapped_device.h"
#include "tests/support/written_ranges.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;
const Shape kSample{1, 24, 24, 3};
constexpr std::int64_t kBatch = 4;

/// A model with arenas of its own and one batch of random images.
class Bench {
 public:
  Bench(const ModelEntry& entry, Type type, bool training, int threads = 1)
      : device_(make_cpu_device(threads)),
        stream_(device_->stream()),
        training_(training),
        model(*device_, entry, entry.sample, kClasses, kBatch, type, training),
        parameters(model.layout().count),
        gradients(parameters.size()),
        images_(
            device_->allocate(model.input().count() * size_of(model.input_type()), Place::device)) {
    initialize(model.layout(), 1, parameters.data());
    model.bind(parameters.data(), training ? gradients.data() : nullptr);
    Random random(1, Purpose::generate, 0, 0);
    if (entry.words) {
      auto* word = images().as<std::int32_t>();
      for (std::int64_t i = 0; i < model.input().count(); ++i)
        word[i] = static_cast<std::int32_t>(random.below(300));
    } else {
      dispatch(type, [&](auto* tag) {
        using T = std::remove_pointer_t<decltype(tag)>;
        T* pixel = images().as<T>();
        for (std::int64_t i = 0; i < model.input().count(); ++i) pixel[i] = random.normal();
      });
    }
    for (std::int32_t& label : labels_) label = static_cast<std::int32_t>(random.below(kClasses));
  }

  View images() { return {images_.get(), model.input(), model.input_type()}; }

  /// Mean loss of the batch, with the gradient of the logits left for backward().
  double forward() {
    const View logits = training_ ? model.forward(*stream_, images(), {1, &position_})
                                  : model.forward(*stream_, images());
    Score score;
    softmax_cross_entropy(*stream_, logits, {labels_, {kBatch}, Type::i32}, 1.0f / kBatch,
                          training_ ? model.logits_gradient() : View{}, &score);
    return score.loss();
  }
  std::vector<Range> backward() {
    WrittenRanges ready(model.layout());
    model.backward(*stream_, images(), ready);
    return ready.ranges;
  }
  /// The logits as floats.
  std::vector<float> logits() {
    const View view = model.forward(*stream_, images());
    std::vector<float> values;
    for (std::int64_t i = 0; i < view.count(); ++i) {
      values.push_back(view.type == Type::bf16 ? static_cast<float>(view.as<Bfloat16>()[i])
                                               : view.as<float>()[i]);
    }
    return values;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  const bool training_;

 public:
  Model model;
  std::vector<float> parameters, gradients;

 private:
  Memory images_;
  const std::int64_t position_ = 40;
  std::int32_t labels_[kBatch] = {};
};

double norm(const std::vector<float>& values, Range range) {
  double squares = 0;
  for (std::int64_t i = range.begin; i < range.end(); ++i) {
    const double value = values[i];
    squares += value * value;
  }
  return std::sqrt(squares);
}

/// Through dozens of layers, each normalised over a batch of four, kinks and roundings add up.
bool is_deep(const Model& model) { return model.layers().size() > 40; }

/// Its logits lie between 0 and 1, or are divided by 256: the loss hardly moves, least of all in
/// fp32.
bool is_flat(const ModelEntry& entry) {
  return entry.name == "reuters_as_published" || entry.name == "airbench94";
}

class EveryModel : public testing::TestWithParam<const ModelEntry*> {};

TEST_P(EveryModel, GradientMatchesCentralDifferencesOfTheLoss) {
  if (is_flat(*GetParam())) GTEST_SKIP() << "too flat to measure";
  Bench bench(*GetParam(), Type::f32, true);
  bench.forward();
  bench.backward();
  const std::vector<float> weights = bench.parameters;
  // In fp32 a difference of two losses of which only 2e-4 is left is good to a per cent or two.
  const double near = is_deep(bench.model) ? 0.03 : 0.02;
  std::uint32_t index = 0;
  // At most 20 arrays: those of dozens of layers that are alike take minutes.
  const std::size_t stride = bench.model.layout().parameters.size() / 20 + 1;
  for (std::size_t i = 0; i < bench.model.layout().parameters.size(); i += stride) {
    const Parameter& parameter = bench.model.layout().parameters[i];
    if (!parameter.trained()) continue;
    const Range range = parameter.range;
    const double length = norm(bench.gradients, range);
    EXPECT_GT(length, 0) << parameter.name;
    // Along the gradient, which shows its length, and along a random direction, which shows whether
    // a large part of it is missing. There the kinks of ReLU and maximum, of which a random step
    // crosses many, leave up to 0.1 of the length between slope and difference.
    for (const bool along : {true, false}) {
      Random random(2, Purpose::generate, 0, ++index);
      std::vector<float> direction(weights.size());
      for (std::int64_t i = range.begin; i < range.end(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        direction[at] = along ? bench.gradients[at] / static_cast<float>(length) : random.normal();
      }
      const double step = 1e-4 / std::max(length, 0.05);
      const auto moved = [&](std::size_t i, double distance) {
        return weights[i] + static_cast<float>(distance) * direction[i];
      };
      double slope = 0;  // of the way that is gone, whose steps are but a few ulp in large arrays
      for (std::int64_t i = range.begin; i < range.end(); ++i) {
        const auto at = static_cast<std::size_t>(i);
        slope += (static_cast<double>(moved(at, step)) - moved(at, -step)) / (2 * step) *
                 bench.gradients[at];
      }
      const auto loss_at = [&](double distance) {
        for (std::size_t i = 0; i < weights.size(); ++i) bench.parameters[i] = moved(i, distance);
        return bench.forward();
      };
      const double measured = (loss_at(step) - loss_at(-step)) / (2 * step);
      EXPECT_NEAR(measured, slope, (along ? near : 0.3) * length)
          << parameter.name << (along ? " along its gradient" : " along a random direction");
    }
  }
}

TEST_P(EveryModel, Bfloat16GradientPointsTheSameWay) {
  Bench wide(*GetParam(), Type::f32, true);
  std::unique_ptr<Bench> narrow;
  try {
    narrow = std::make_unique<Bench>(*GetParam(), Type::bf16, true);
  } catch (const std::exception& error) {
    GTEST_SKIP() << "skipped: no bf16 kernel on this processor (" << error.what() << ")";
  }
  const bool deep = is_deep(wide.model);
  // Four layers choose maxima before they are normalised: with few images rounding's other choices
  // show.
  const bool flips = GetParam()->name == "airbench94";
  const auto& layers = narrow->model.layers();
  const bool fast = std::any_of(layers.begin(), layers.end(), [](const LayerSummary& layer) {
    return layer.implementation.find("products of bf16") !=
           std::string::npos;  // of Winograd's algorithm
  });
  const double loss = wide.forward();
  EXPECT_NEAR(narrow->forward(), loss, deep ? 0.1 : (fast ? 0.01 : 0.005) * loss);
  narrow->backward();
  wide.backward();
  for (const Parameter& parameter : wide.model.layout().parameters) {
    double dot = 0;
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      dot += static_cast<double>(wide.gradients[at]) * narrow->gradients[at];
    }
    const double lengths =
        norm(wide.gradients, parameter.range) * norm(narrow->gradients, parameter.range);
    EXPECT_GT(dot / lengths, deep ? 0.4 : flips ? 0.9 : fast ? 0.93 : 0.97) << parameter.name;
    EXPECT_NEAR(norm(narrow->gradients, parameter.range) / norm(wide.gradients, parameter.range), 1,
                deep ? 0.5 : 0.1)
        << parameter.name;
  }
}

TEST(Models, ResidualOnesHaveAsManyRelusAsPublished) {
  const auto device = make_cpu_device(1);
  const std::pair<const char*, int> published[] = {
      {"resnet20", 19}, {"resnet56", 55}, {"resnet18", 17}, {"resnet_small", 5}};
  for (const auto& [name, relus] : published) {
    const ModelEntry& entry = find(models(), name);
    const Model model(*device, entry, entry.sample, 10, 2, Type::f32, /*training=*/false);
    const auto& layers = model.layers();
    EXPECT_EQ(std::count_if(layers.begin(), layers.end(),
                            [](const LayerSummary& layer) {
                              return layer.implementation.ends_with("+ relu");
                            }),
              relus)
        << name;
  }
}

TEST_P(EveryModel, ParametersLieInTheOrderInWhichGradientsGetReady) {
  Bench bench(*GetParam(), Type::f32, true);
  const Layout& layout = bench.model.layout();
  std::set<std::string> names;
  std::int64_t trainable = 0;
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    const Parameter& parameter = layout.parameters[i];
    EXPECT_EQ(parameter.range.begin % 16, 0) << parameter.name;
    EXPECT_EQ(parameter.range.count, parameter.shape.count()) << parameter.name;
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name << " twice";
    if (parameter.trained()) trainable += parameter.range.count;
    if (i == 0) continue;
    const Parameter& before = layout.parameters[i - 1];
    EXPECT_GE(parameter.range.begin, before.range.end()) << parameter.name;
    EXPECT_LT(parameter.range.begin - before.range.end(), 16) << parameter.name;
    EXPECT_LE(parameter.layer, before.layer) << "the last layer comes first";
  }
  EXPECT_EQ(layout.trainable(), trainable);
  std::int64_t end = Layout::kHeader;
  for (const Range& layer : layout.layers) {
    EXPECT_EQ(layer.begin, end) << "a gap between layers";
    end = layer.end();
  }
  EXPECT_EQ(layout.count, end);
  bench.forward();
  EXPECT_EQ(bench.backward(), layout.layers);
}

TEST_P(EveryModel, BackwardWritesEveryGradientAndNothingElse) {
  Bench bench(*GetParam(), Type::f32, true);
  bench.forward();
  std::fill(bench.gradients.begin(), bench.gradients.end(), std::nanf(""));
  bench.backward();
  std::vector<bool> owned(bench.gradients.size());
  for (const Parameter& parameter : bench.model.layout().parameters) {
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
      owned[i] = true;
    }
  }
  for (std::size_t i = 0; i < owned.size(); ++i) {
    ASSERT_EQ(std::isnan(bench.gradients[i]), !owned[i]) << "element " << i;
  }
}

/// The CPU, which notes whose input has a gradient that somebody wants.
class Recorder : public WrappedDevice {
 public:
  std::vector<bool> wanted;

  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    wanted.push_back(spec.input.input_gradient);
    return WrappedDevice::convolution(spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    wanted.push_back(spec.input.input_gradient);
    return WrappedDevice::dense(spec);
  }
};

TEST_P(EveryModel, AsksForNoGradientOfItsImages) {
  Recorder device;
  Model(device, *GetParam(), GetParam()->sample, kClasses, kBatch, Type::f32, /*training=*/true);
  ASSERT_GE(device.wanted.size(), 2U);
  // An embedding is the first layer of words, and wants that of its rows.
  EXPECT_EQ(device.wanted.front(), GetParam()->words);
  EXPECT_TRUE(device.wanted.back());
}

TEST_P(EveryModel, InferenceIsTrainingsForwardBitForBit) {
  for (const Type type : {Type::f32, Type::bf16}) {
    try {
      Bench training(*GetParam(), type, true), inference(*GetParam(), type, false);
      EXPECT_EQ(training.logits(), inference.logits()) << name_of(type);
      EXPECT_LT(inference.model.activation_bytes(), training.model.activation_bytes());
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      std::printf("without %s: no kernel on this processor (%s)\n", name_of(type), error.what());
    }
  }
}

TEST_P(EveryModel, LearnsOneBatchByHeart) {
  if (is_flat(*GetParam())) GTEST_SKIP() << "no loss below log(9 + e) - 1";
  Bench bench(*GetParam(), Type::f32, true);
  const auto sgd = make_optimizer("sgd", {{"momentum", 0.9f}});
  std::vector<float> momentum(bench.parameters.size());
  const std::vector<float> decays = factors(bench.model.layout(), 0);
  const TrainingState state{
      bench.parameters.data(), {momentum.data()}, nullptr, bench.gradients.data(), decays.data()};
  const UpdateRates now{.rate = 0.01f};
  HostStream stream;
  const double before = bench.forward();
  const bool large =
      bench.parameters.size() > 10'000'000;  // which takes fewer steps, each a second
  for (int step = 0; step < (large ? 8 : 25); ++step) {
    bench.forward();
    bench.backward();
    update(stream, bench.model.layout(), {0, bench.model.layout().count}, *sgd, state, &now);
  }
  EXPECT_LT(bench.forward(), 0.5 * before);
}

TEST_P(EveryModel, RefusesWhatItWasNotPlannedFor) {
  Bench bench(*GetParam(), Type::f32, false);
  HostStream stream;
  View other = bench.images();
  other.shape = other.shape.with_batch(kBatch - 1);
  EXPECT_NE(error_of([&] { bench.model.forward(stream, other); }).find("another shape"),
            std::string::npos);
  EXPECT_NE(error_of([&] { bench.backward(); }).find("inference"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, testing::ValuesIn([] {
                           std::vector<const ModelEntry*> entries;
                           for (const ModelEntry& entry : models()) entries.push_back(&entry);
                           return entries;
                         }()),
                         [](const auto& info) { return std::string(info.param->name); });

TEST_P(EveryModel, IsMadeForTheShapesThatItFits) {
  const ModelEntry& entry = *GetParam();
  EXPECT_TRUE(entry.fits(entry.sample.with_batch(7)));
  const auto device = make_cpu_device(1);
  for (const Shape sample : {Shape{1, 9, 13, 2}, Shape{1, 500}}) {
    const auto make = [&] { Model(*device, entry, sample, 3, 2, Type::f32, true); };
    if (!entry.fits(sample)) {
      EXPECT_NE(error_of(make).find(sample.text()), std::string::npos) << error_of(make);
      continue;
    }
    const Model model(*device, entry, sample, 3, 2, Type::f32, true);
    EXPECT_EQ(model.input(), sample.with_batch(2));
    EXPECT_EQ(model.layers().back().output, (Shape{2, 3}));
  }
}

TEST(RequireFit, TellsBothShapesAndTheModelsThatFit) {
  const ModelEntry small{"small", "", {1, 7, 7, 1}, false, nullptr};
  require_fit(small, {64, 7, 7, 1});
  EXPECT_EQ(error_of([&] {
              require_fit(small, {1, 500});
            }),
            "the model small takes samples of 1x7x7x1, and this data set has 1x500: no model of "
            "--list takes those; choose another --dataset");
  const std::string refusal = error_of([&] { require_fit(small, {64, 24, 24, 3}); });
  EXPECT_EQ(refusal.find("the model small takes samples of 1x7x7x1, and this data set has "
                         "1x24x24x3: say --model "),
            0u)
      << refusal;
  for (const ModelEntry& entry : models()) {
    EXPECT_EQ(refusal.find(entry.name) != std::string::npos, entry.fits({1, 24, 24, 3})) << refusal;
  }
  EXPECT_NE(error_of([&] {
              require_fit(find(models(), "tutorial"), {1, 500});
            }).find("takes samples of 1x24x24x3 and other images, and this data set has 1x500"),
            std::string::npos);
}

TEST(Tutorial, IsTheTutorialsNetworkLayerForLayer) {
  const auto device = make_cpu_device(1);
  const Model model(*device, find(models(), "tutorial"), kSample, kClasses, 2, Type::f32, true);
  EXPECT_EQ(model.layout().trainable(), 1068298);
  const std::pair<std::string, std::string> outputs[] = {
      {"conv1", "2x24x24x64"}, {"pool1", "2x12x12x64"}, {"norm1", "2x12x12x64"},
      {"conv2", "2x12x12x64"}, {"norm2", "2x12x12x64"}, {"pool2", "2x6x6x64"},
      {"local3", "2x384"},     {"local4", "2x192"},     {"softmax_linear", "2x10"}};
  ASSERT_EQ(model.layers().size(), std::size(outputs));
  for (std::size_t i = 0; i < std::size(outputs); ++i) {
    EXPECT_EQ(model.layers()[i].name, outputs[i].first);
    EXPECT_EQ(model.layers()[i].output.text(), outputs[i].second);
  }
  // Multiply-adds of one image: conv1, conv2 and the three dense layers.
  const double image =
      24. * 24 * 64 * 75 + 12. * 12 * 64 * 1600 + 2304. * 384 + 384 * 192 + 192 * 10;
  EXPECT_EQ(model.forward_flops(), 2 * 2 * image);
  EXPECT_EQ(model.training_flops(), 2 * 2 * (3 * image - 24. * 24 * 64 * 75));
}

TEST(Tutorial, BeginsAsTheTutorialDoes) {
  const auto device = make_cpu_device(1);
  const Model model(*device, find(models(), "tutorial"), kSample, kClasses, 1, Type::f32, false);
  const Layout& layout = model.layout();
  std::vector<float> values(layout.count);
  initialize(layout, 1, values.data());
  const std::map<std::string, std::pair<double, double>> weights_and_biases{
      {"conv1", {0.05, 0}},
      {"conv2", {0.05, 0.1}},
      {"local3", {0.04, 0.1}},
      {"local4", {0.04, 0.1}},
      {"softmax_linear", {1 / 192., 0}}};
  for (const Parameter& parameter : layout.parameters) {
    const auto [deviation, bias] =
        weights_and_biases.at(parameter.name.substr(0, parameter.name.find('/')));
    const bool weights = parameter.name.ends_with("/weights");
    const bool decays = parameter.name == "local3/weights" || parameter.name == "local4/weights";
    EXPECT_EQ(parameter.l2, decays ? 0.004f : 0.0f) << parameter.name;
    const auto count = static_cast<double>(parameter.range.count);
    const float* p = values.data() + parameter.range.begin;
    double farthest = 0;
    for (std::int64_t i = 0; i < parameter.range.count; ++i) {
      if (!weights) {
        ASSERT_EQ(p[i], static_cast<float>(bias)) << parameter.name;
      }
      farthest = std::max(farthest, std::abs(static_cast<double>(p[i])));
    }
    if (!weights) continue;
    EXPECT_LE(farthest, 2 * deviation * (1 + 1e-6)) << parameter.name;
    // A truncated normal of that deviation has 0.8796 of it.
    EXPECT_NEAR(norm(values, parameter.range) / std::sqrt(count), 0.8796 * deviation,
                3 * deviation / std::sqrt(count))
        << parameter.name;
  }
}

/// Thirty-two by thirty-two pixels whose neighbours are alike.
class Smooth : public Dataset {
 public:
  std::int64_t size() const override { return 9; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 32, 32, 3}; }
  std::int32_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t index, Random* random, void* out, Type) const override {
    EXPECT_EQ(random, nullptr) << "as evaluation sees them";
    Random noise(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    auto* value = static_cast<float*>(out);
    for (int i = 0; i < 32 * 32 * 3; ++i)
      value[i] = 0.3f * noise.normal() + (i > 2 ? 0.8f * value[i - 3] : 0);
  }
  std::string describe() const override { return "smooth"; }
};

TEST(Airbench, IsTheNetworkLayerForLayer) {
  const auto device = make_cpu_device(1);
  const ModelEntry& entry = find(models(), "airbench94");
  const Model model(*device, entry, entry.sample, kClasses, 2, Type::f32, true);
  EXPECT_EQ(model.layout().trainable(), 1971640);
  const std::pair<std::string, std::string> outputs[] = {
      {"whiten", "2x31x31x24"}, {"conv1a", "2x31x31x64"},  {"pool1a", "2x15x15x64"},
      {"conv1b", "2x15x15x64"}, {"conv2a", "2x15x15x256"}, {"pool2a", "2x7x7x256"},
      {"conv2b", "2x7x7x256"},  {"conv3a", "2x7x7x256"},   {"pool3a", "2x3x3x256"},
      {"conv3b", "2x3x3x256"},  {"pool", "2x1x1x256"},     {"head", "2x10"}};
  std::size_t next = 0;
  for (const LayerSummary& layer : model.layers()) {
    if (next < std::size(outputs) && layer.name == outputs[next].first) {
      EXPECT_EQ(layer.output.text(), outputs[next++].second) << layer.name;
    } else {
      EXPECT_TRUE(layer.kind == "gelu" || layer.kind == "batch_norm" || layer.kind == "rescale")
          << layer.name;
    }
  }
  EXPECT_EQ(next, std::size(outputs));
  // Multiply-adds of an image, of all convolutions and the head.
  const double image = 961. * 24 * 12 + 961. * 64 * 216 + 225. * 64 * 576 + 225. * 256 * 576 +
                       49. * 256 * 2304 * 2 + 9. * 256 * 2304 + 2560;
  EXPECT_EQ(model.forward_flops(), 2 * 2 * image);
}

TEST(Airbench, BeginsWithWhatTheDataSayAndLetsChannelsThrough) {
  const auto device = make_cpu_device(1);
  const ModelEntry& entry = find(models(), "airbench94");
  const Model model(*device, entry, entry.sample, kClasses, 1, Type::f32, false);
  const Layout& layout = model.layout();
  std::vector<float> drawn(layout.count);
  initialize(layout, 1, drawn.data());
  std::vector<float> values = drawn;
  entry.prepare(Smooth(), layout, values.data());
  for (const Parameter& parameter : layout.parameters) {
    const float* p = values.data() + parameter.range.begin;
    const bool whitens = parameter.name == "whiten/weights";
    EXPECT_EQ(std::equal(p, p + parameter.range.count, drawn.data() + parameter.range.begin),
              !whitens)
        << parameter.name;
    EXPECT_EQ(parameter.stepped(), parameter.trained() && !whitens) << parameter.name;
    if (parameter.name == "head/weights") {
      EXPECT_NEAR(norm(values, parameter.range), std::sqrt(2560.0), 1.5) << "a deviation of 1";
    }
    if (!parameter.name.starts_with("conv")) continue;
    const std::int64_t channels = parameter.shape[3], row = 9 * channels;
    const double limit = 1 / std::sqrt(static_cast<double>(row));
    for (std::int64_t filter = 0; filter < parameter.shape[0]; ++filter) {
      for (std::int64_t i = 0; i < row; ++i) {
        const float value = p[filter * row + i];
        if (filter < channels) {
          ASSERT_EQ(value, i == 4 * channels + filter ? 1 : 0) << parameter.name << filter;
        } else {
          ASSERT_LE(std::abs(value), limit) << parameter.name;
        }
      }
    }
  }
}

TEST(Whitening, MakesAMeanSquareOfOneInEveryDirection) {
  const Smooth set;
  const std::vector<float> filters = whitening_filters(set, 2, 5, 0);
  ASSERT_EQ(filters.size(), 24u * 12);
  std::vector<float> image(32 * 32 * 3);
  std::vector<double> products(144);
  for (std::int64_t index = 0; index < 5; ++index) {
    set.read(index, nullptr, image.data(), Type::f32);
    for (int y = 0; y < 31; ++y) {
      for (int x = 0; x < 31; ++x) {
        double seen[12] = {};
        for (std::size_t f = 0; f < 12; ++f)
          for (std::size_t i = 0; i < 12; ++i)
            seen[f] +=
                double{filters[f * 12 + i]} * image[((y + i / 6) * 32 + x + i % 6 / 3) * 3 + i % 3];
        for (std::size_t i = 0; i < 144; ++i)
          products[i] += seen[i / 12] * seen[i % 12] / (5 * 961);
      }
    }
  }
  for (std::size_t i = 0; i < 144; ++i) EXPECT_NEAR(products[i], i / 12 == i % 12, 1e-5) << i;
  for (std::size_t i = 0; i < 144; ++i) EXPECT_EQ(filters[144 + i], -filters[i]);
  EXPECT_EQ(whitening_filters(set, 2, 9, 1e-3), whitening_filters(set, 2, 5000, 1e-3))
      << "of all, where there are fewer";
}

TEST(Whitening, TakesASymmetricMatrixApart) {
  const std::vector<double> a{2, 1, 0, 1, 2, 0, 0, 0, 5};
  const Eigen eigen = eigen_of(a, 3);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(eigen.values[i], (std::array{5, 3, 1}[i]), 1e-12);
    for (std::size_t row = 0; row < 3; ++row) {
      double product = 0;
      for (std::size_t k = 0; k < 3; ++k) product += a[row * 3 + k] * eigen.vectors[i * 3 + k];
      EXPECT_NEAR(product, eigen.values[i] * eigen.vectors[i * 3 + row], 1e-12);
    }
  }
}

TEST(Initialize, DependsOnSeedAndNameAlone) {
  const auto device = make_cpu_device(1);
  const Model model(*device, find(models(), "tutorial"), kSample, kClasses, 1, Type::f32, false);
  const Layout& layout = model.layout();
  std::vector<float> one(layout.count), same = one, other = one;
  initialize(layout, 1, one.data());
  initialize(layout, 1, same.data());
  initialize(layout, 2, other.data());
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);

  // A layout that holds one parameter alone gives it the same values.
  Layout alone;
  alone.parameters = {layout.parameters.front()};
  const std::int64_t count = alone.parameters[0].range.count;
  alone.parameters[0].range.begin = 16;
  std::vector<float> lonely(16 + count);
  initialize(alone, 1, lonely.data());
  const float* there = one.data() + layout.parameters.front().range.begin;
  EXPECT_TRUE(std::equal(there, there + count, lonely.data() + 16));
}

}  // namespace
}  // namespace lockstep
