// Evaluation: refuses a data set that does not fit the model; --test-views.
#include "apps/evaluate/evaluation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/evaluate/mean_of_views.h"
#include "src/base/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/files.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

/// Samples that are no images.
class Flat : public TestDataset {
 public:
  explicit Flat(Shape sample = {1, 500}) : TestDataset(1000, 10, sample) {}
  void read(std::int64_t, Random*, void*, Type) const override { FAIL() << "nothing may be read"; }
};

TEST(Evaluation, RefusesAnotherShapeThanTheModels) {
  const auto device = make_cpu_device(1);
  const Flat flat;
  expect_error({"tutorial", "1x24x24x3"},
               [&] { Evaluation(*device, find(models(), "tutorial"), flat, Type::f32); });
}

TEST(Evaluation, TakesFewLargeImagesAtOnce) {
  const auto device = make_cpu_device(1);
  for (const auto& [edge, batch] : {std::pair(24, 100), {64, 100}, {128, 42}, {224, 16}, {999, 16}})
    EXPECT_EQ(Evaluation::batch_size(*device, Flat({1, edge, edge, 3})), batch) << edge;
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
class Noise : public TestDataset {
 public:
  Noise() : TestDataset(30, 10, {1, 24, 24, 3}) {}
  void read(std::int64_t index, Random*, void* out, Type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    for (int i = 0; i < 24 * 24 * 3; ++i) static_cast<float*>(out)[i] = random.normal();
  }
};

TEST(TestViews, AverageTheLogits) {
  constexpr int kBatch = 8, kImages = 30, kOfImage = 24 * 24 * 3;
  const auto device = make_cpu_device(1);
  const Noise noise;
  Model model(*device, find(models(), "tutorial"), noise.sample_shape().with_batch(kBatch), 10,
              Type::f32, false);
  std::vector<float> parameters(model.layout().count), images(4 * kBatch * kOfImage),
      seen(kBatch * kOfImage);
  for (int i = 0; i < kImages; ++i) noise.read(i, nullptr, &images[i * kOfImage], Type::f32);
  initialize(model.layout(), 1, parameters.data());
  model.bind(parameters.data(), nullptr);
  MeanOfViews means(*device, model, 10);
  HostStream stream;
  for (int first = 0; first < kImages; first += kBatch) {
    const View batch{&images[first * kOfImage], model.input(), Type::f32},
        moved{seen.data(), model.input(), Type::f32};
    std::vector<double> wanted(kBatch * 10);
    for (const TestView& view : kTestViews) {
      see(stream, batch, view, moved);
      const float* logits = model.forward(stream, moved).as<float>();
      for (double& sum : wanted) sum += double{view.weight} * double{*logits++};
    }
    const float* mean = means.of_batch(stream, batch).as<float>();
    for (const double sum : wanted) EXPECT_NEAR(*mean++, sum, 1e-6 * std::max(1.0, std::abs(sum)));
  }
}

}  // namespace
}  // namespace lockstep
