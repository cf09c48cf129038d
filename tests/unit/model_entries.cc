// The tutorial's network and airbench94, layer for layer, with their initial weights; whitening
// filters.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "net/model.h"
#include "net/whitening.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

constexpr int kClasses = 10;

const ModelEntry& tutorial() { return find(models(), "tutorial"); }
const ModelEntry& airbench() { return find(models(), "airbench94"); }

Layout layout_of(const ModelEntry& entry) {
  const auto device = make_cpu_device(1);
  return Model(*device, entry, entry.sample, kClasses, Type::f32, false).layout();
}
std::vector<float> initialized(const Layout& layout, std::uint64_t seed = 1) {
  std::vector<float> values(layout.count);
  initialize(layout, seed, values.data());
  return values;
}

double norm(const std::vector<float>& values, Range range) {
  double squares = 0;
  for (std::int64_t i = range.begin; i < range.end(); ++i) squares += std::pow(values[i], 2);
  return std::sqrt(squares);
}

TEST(Tutorial, IsTheTutorialsNetworkLayerForLayer) {
  const auto device = make_cpu_device(1);
  const Model model(*device, tutorial(), tutorial().sample.with_batch(2), kClasses, Type::f32,
                    true);
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
  const Layout layout = layout_of(tutorial());
  const std::vector<float> values = initialized(layout);
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
class Smooth : public TestDataset {
 public:
  Smooth() : TestDataset(9, 10, {1, 32, 32, 3}) {}
  void read(std::int64_t index, Random* random, void* out, Type) const override {
    EXPECT_EQ(random, nullptr) << "as evaluation sees them";
    Random noise(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    auto* value = static_cast<float*>(out);
    for (int i = 0; i < 32 * 32 * 3; ++i)
      value[i] = 0.3f * noise.normal() + (i > 2 ? 0.8f * value[i - 3] : 0);
  }
};

TEST(Airbench, IsTheNetworkLayerForLayer) {
  const auto device = make_cpu_device(1);
  const Model model(*device, airbench(), airbench().sample.with_batch(2), kClasses, Type::f32,
                    true);
  EXPECT_EQ(model.layout().trainable(), 1971640);
  const std::pair<std::string, std::string> outputs[] = {
      {"whiten", "2x31x31x24"}, {"conv1a", "2x31x31x64"},  {"pool1a", "2x15x15x64"},
      {"conv1b", "2x15x15x64"}, {"conv2a", "2x15x15x256"}, {"pool2a", "2x7x7x256"},
      {"conv2b", "2x7x7x256"},  {"conv3a", "2x7x7x256"},   {"pool3a", "2x3x3x256"},
      {"conv3b", "2x3x3x256"},  {"pool", "2x256"},         {"head", "2x10"}};
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

TEST(Airbench, OnlyAConvolutionWithTwiceItsWindowWhitens) {
  const Layout layout = layout_of(airbench());
  std::vector<float> values(layout.count);
  for (const char* layer : {"none", "head", "conv1a"}) {
    expect_error({layer}, [&] { whiten(Smooth(), layout, layer, values.data()); });
  }
  EXPECT_NO_THROW(whiten(Smooth(), layout, "whiten", values.data()));
  Layout grouped;  // its filters see one channel of three
  grouped.parameters.push_back({.name = "grouped/weights", .shape = {8, 2, 2, 1}});
  expect_error({"grouped"}, [&] { whiten(Smooth(), grouped, "grouped", values.data()); });
  expect_error({"33"}, [] { whitening_filters(Smooth(), 33, 5, 0); });
}

TEST(Airbench, BeginsWithTheDatasFiltersAndIdentities) {
  const Layout layout = layout_of(airbench());
  const std::vector<float> drawn = initialized(layout);
  std::vector<float> values = drawn;
  airbench().prepare(Smooth(), layout, values.data());
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

TEST(Whitening, ComputesEigenvectors) {
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

TEST(Initialize, DependsOnlyOnSeedAndName) {
  const Layout layout = layout_of(tutorial());
  const std::vector<float> one = initialized(layout);
  EXPECT_EQ(one, initialized(layout));
  EXPECT_NE(one, initialized(layout, 2));

  // A layout that holds one parameter alone gives it the same values.
  Layout alone;
  alone.parameters = {layout.parameters.front()};
  const std::int64_t count = alone.parameters[0].range.count;
  alone.parameters[0].range.begin = 16;
  alone.count = 16 + count;
  const std::vector<float> lonely = initialized(alone);
  const float* there = one.data() + layout.parameters.front().range.begin;
  EXPECT_TRUE(std::equal(there, there + count, lonely.data() + 16));
}

}  // namespace
}  // namespace lockstep
