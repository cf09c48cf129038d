// Evaluation: refuses a data set that does not fit the model; --test-views.
#include "apps/run/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "apps/run/mean_of_views.h"
#include "apps/run/test_views.h"
#include "src/base/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

/// Samples that are no images.
class Flat : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 500}; }
  std::int32_t label(std::int64_t) const override { return 0; }
  void read(std::int64_t, Random*, void*, Type) const override { FAIL() << "nothing may be read"; }
  std::string describe() const override { return "a flat set"; }
};

TEST(Evaluation, RefusesAnotherShapeThanTheModels) {
  const auto device = make_cpu_device(1);
  const Flat flat;
  expect_error({"tutorial", "1x24x24x3"},
               [&] { Evaluation(*device, find(models(), "tutorial"), flat, Type::f32); });
}

TEST(Evaluation, TakesFewLargeImagesAtOnce) {
  struct Square : Flat {
    explicit Square(int edge) : edge(edge) {}
    Shape sample_shape() const override { return {1, edge, edge, 3}; }
    const int edge;
  };
  const auto device = make_cpu_device(1);
  for (const auto& [edge, batch] : {std::pair(24, 100), {64, 100}, {128, 42}, {224, 16}, {999, 16}})
    EXPECT_EQ(Evaluation::batch_size(*device, Square(edge)), batch) << edge;
}

TEST(TestViews, AreMovedReflectedAndMirrored) {
  double weights = 0;
  for (const TestView& view : kTestViews) weights += view.weight;
  EXPECT_EQ(weights, 1);
  constexpr int kHeight = 3, kWidth = 4;
  std::vector<float> images, seen(2 * kHeight * kWidth * 2);
  for (std::size_t i = 0; i < seen.size(); ++i) images.push_back(static_cast<float>(i));
  const Shape shape{2, kHeight, kWidth, 2};
  const auto reflected = [](int i, int extent) {
    return i < 0 ? -i : i >= extent ? 2 * extent - 2 - i : i;
  };
  HostStream stream;
  for (const TestView& view : kTestViews) {
    see(stream, {images.data(), shape, Type::f32}, view, {seen.data(), shape, Type::f32});
    for (int i = 0; i < 2; ++i)
      for (int y = 0; y < kHeight; ++y)
        for (int x = 0; x < kWidth; ++x)
          for (int c = 0; c < 2; ++c) {
            const int from_x = reflected((view.mirror ? kWidth - 1 - x : x) - view.shift, kWidth),
                      from_y = reflected(y - view.shift, kHeight);
            EXPECT_EQ(seen[((i * kHeight + y) * kWidth + x) * 2 + c],
                      ((i * kHeight + from_y) * kWidth + from_x) * 2 + c)
                << view.shift << view.mirror;
          }
  }
}

/// Noise of 30 images, none like another.
class Noise : public Flat {
 public:
  std::int64_t size() const override { return 30; }
  Shape sample_shape() const override { return {1, 24, 24, 3}; }
  void read(std::int64_t index, Random*, void* out, Type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    for (int i = 0; i < 24 * 24 * 3; ++i) static_cast<float*>(out)[i] = random.normal();
  }
};

/// The mean by definition, of rows of logits from kTestViews. Adds the uncertain rows to
/// `uncertain`.
std::vector<double> mean_by_hand(const std::vector<std::vector<float>>& views, int& uncertain) {
  constexpr int kClasses = 10;
  std::vector<double> mean(views[0].size());
  for (std::size_t row = 0; row < mean.size(); row += kClasses) {
    std::vector<double> two;
    for (std::size_t i = row; i < row + kClasses; ++i)
      two.push_back((double{views[0][i]} + double{views[1][i]}) / 2);
    std::vector<double> sorted = two;
    std::sort(sorted.rbegin(), sorted.rend());
    const bool certain = std::exp(sorted[0] - sorted[1]) >= 8;
    uncertain += !certain;
    for (int c = 0; c < kClasses; ++c) {
      mean[row + c] = certain ? two[c] : 0;
      for (std::size_t k = 0; k < views.size() && !certain; ++k)
        mean[row + c] += double{kTestViews[k].weight} * double{views[k][row + c]};
    }
  }
  return mean;
}

TEST(TestViews, AverageTheLogits) {
  constexpr int kBatch = 8, kImages = 30, kOfImage = 24 * 24 * 3;
  const auto device = make_cpu_device(1);
  const Noise noise;
  Model model(*device, find(models(), "tutorial"), noise.sample_shape(), 10, kBatch, Type::f32,
              false);
  std::vector<float> parameters(model.layout().count), images(4 * kBatch * kOfImage),
      seen(kBatch * kOfImage);
  for (int i = 0; i < kImages; ++i) noise.read(i, nullptr, &images[i * kOfImage], Type::f32);
  initialize(model.layout(), 1, parameters.data());
  model.bind(parameters.data(), nullptr);
  MeanOfViews means(*device, model, 10);
  HostStream stream;
  const auto batch = [&](int first) {
    return View{&images[first * kOfImage], model.input(), Type::f32};
  };
  // Larger parameters move the logits apart.
  for (const auto& [factor, least, most] :
       {std::tuple{1.0f, 30, 30}, {4.4f, 1, 29}, {2.0f, 0, 0}}) {
    SCOPED_TRACE(factor);
    for (float& value : parameters) value *= factor;
    std::vector<std::vector<float>> views;
    for (const TestView& view : kTestViews) {
      views.emplace_back();
      for (int first = 0; first < kImages; first += kBatch) {
        const View moved{seen.data(), model.input(), Type::f32};
        see(stream, batch(first), view, moved);
        const float* logits = model.forward(stream, moved).as<float>();
        views.back().insert(views.back().end(), logits, logits + kBatch * 10);
      }
      views.back().resize(kImages * 10);
    }
    int uncertain = 0;
    const std::vector<double> wanted = mean_by_hand(views, uncertain);
    EXPECT_GE(uncertain, least);
    EXPECT_LE(uncertain, most);

    std::vector<float> all;
    for (int first = 0; first < kImages; first += kBatch) {
      const float* mean = means.of_batch(stream, batch(first)).as<float>();
      all.insert(all.end(), mean, mean + kBatch * 10);
    }
    all.resize(kImages * 10);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_NEAR(all[i], wanted[i], 1e-6 * std::max(1.0, std::abs(wanted[i]))) << i;

    // Bitwise the same if only uncertain images have more views, after any batches.
    for (const int whole : {kImages, 5}) {
      means.clear();
      std::vector<std::int64_t> samples;
      for (int first = 0; first < kImages; first += kBatch) {
        std::vector<std::int64_t> some;
        for (int i = first; i < std::min({first + kBatch, first + whole, kImages}); ++i)
          some.push_back(i);
        means.add(stream, batch(first), some);
        samples.insert(samples.end(), some.begin(), some.end());
      }
      const View is = means.finish(stream);
      ASSERT_EQ(means.samples(), samples);
      ASSERT_EQ(is.shape, (Shape{std::ssize(samples), 10}));
      for (std::size_t row = 0; row < samples.size(); ++row)
        for (int c = 0; c < 10; ++c)
          EXPECT_EQ(is.as<float>()[row * 10 + c], all[samples[row] * 10 + c]) << samples[row];
    }
  }
}

TEST(TestViews, AreFewOfCertainImages) {
  constexpr float kInf = std::numeric_limits<float>::infinity(),
                  kNaN = std::numeric_limits<float>::quiet_NaN(), kHalf = kCertain / 2;
  const auto certain = [](std::vector<float> sums) {
    std::vector<float> mean(sums.size(), -1);
    HostStream stream;
    const Shape row{1, std::ssize(sums)};
    choose_certain(stream, {sums.data(), row, Type::f32}, {mean.data(), row, Type::f32});
    const bool result = is_certain(sums.data(), std::ssize(sums));
    EXPECT_EQ(mean[0] == 2 * sums[0], result);
    return result;
  };
  EXPECT_TRUE(certain({kHalf, 0, 0}));
  EXPECT_FALSE(certain({std::nextafter(kHalf, 0.0f), 0, -5}));
  EXPECT_TRUE(certain({3, 5, 3}));
  EXPECT_FALSE(certain({3, 5, 5}));
  EXPECT_TRUE(certain({1, kInf, 1}));
  EXPECT_FALSE(certain({1, kInf, kInf}));
  EXPECT_FALSE(certain({kNaN, kNaN, kNaN}));
  EXPECT_FALSE(certain({kNaN, 1, 0.5f}));
}

}  // namespace
}  // namespace lockstep
