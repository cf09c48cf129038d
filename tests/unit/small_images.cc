// Progressive resizing: images shrink to the means of areas, the models for small images have the
// run's parameters, and their steps are those of a model on images that were shrunk before.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "net/layers.h"
#include "net/sizes/shrink.h"
#include "net/sizes/sized_models.h"
#include "src/base/random.h"
#include "src/base/table.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_list.h"

namespace lockstep {
namespace {

constexpr int kClasses = 3;
constexpr std::int64_t kBatch = 4;
const Shape kSample{1, 12, 15, 3};

/// Random numbers in memory of the host.
struct Images {
  Images(Shape shape, Type type)
      : device(make_cpu_device(2)),
        memory(device->allocate(shape.count() * size_of(type), Place::device)),
        view{memory.get(), shape, type} {
    Random random(1, Purpose::generate, 0, 0);
    dispatch(type, [&]<class T>(T*) {
      for (std::int64_t i = 0; i < shape.count(); ++i)
        view.as<T>()[i] = static_cast<float>(random.normal());
    });
  }
  std::unique_ptr<Device> device;
  Memory memory;
  View view;
};

/// The integral of the image over the area of a pixel, in double.
template <class T>
double mean_of_area(View images, Shape small, std::int64_t n, std::int64_t y, std::int64_t x,
                    std::int64_t c) {
  const auto shape = images.shape;
  const auto overlap = [](std::int64_t pixel, std::int64_t place, std::int64_t from,
                          std::int64_t to) {
    const double scale = static_cast<double>(from) / static_cast<double>(to),
                 begin = static_cast<double>(place) * scale, end = begin + scale,
                 p = static_cast<double>(pixel);
    return std::max(0.0, std::min(p + 1, end) - std::max(p, begin)) / scale;
  };
  double mean = 0;
  for (std::int64_t from_y = 0; from_y < shape[1]; ++from_y) {
    for (std::int64_t from_x = 0; from_x < shape[2]; ++from_x) {
      const std::int64_t place = ((n * shape[1] + from_y) * shape[2] + from_x) * shape[3] + c;
      mean += overlap(from_y, y, shape[1], small[1]) * overlap(from_x, x, shape[2], small[2]) *
              static_cast<double>(static_cast<float>(images.as<T>()[place]));
    }
  }
  return mean;
}

TEST(SmallImages, APixelIsTheMeanOfItsArea) {
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const auto& [height, width] : {std::pair{6, 5}, {7, 11}, {12, 15}, {1, 1}, {11, 14}}) {
      const Images from(kSample.with_batch(3), type), to({3, height, width, 3}, type);
      const auto stream = from.device->stream();
      shrink(*stream, from.view, to.view);
      stream->synchronize();
      dispatch(type, [&]<class T>(T*) {
        const T* value = to.view.as<T>();
        for (std::int64_t n = 0; n < 3; ++n)
          for (std::int64_t y = 0; y < height; ++y)
            for (std::int64_t x = 0; x < width; ++x)
              for (std::int64_t c = 0; c < 3; ++c) {
                EXPECT_NEAR(static_cast<float>(*value++),
                            mean_of_area<T>(from.view, to.view.shape, n, y, x, c),
                            type == Type::f32 ? 1e-6 : 0.01)
                    << height << " x " << width << " at " << n << ' ' << y << ' ' << x << ' ' << c;
              }
      });
    }
  }
}

TEST(SmallImages, LongLinesDoNotOverflow) {
  const Images from({1, 2, 70'000, 1}, Type::f32), to({1, 1, 35'000, 1}, Type::f32);
  std::fill_n(from.view.as<float>(), from.view.count(), 1.0f);
  const auto stream = from.device->stream();
  shrink(*stream, from.view, to.view);
  stream->synchronize();
  for (std::int64_t i = 0; i < to.view.count(); ++i) ASSERT_EQ(to.view.as<float>()[i], 1) << i;
}

NamedLayers any_size(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f};
  return layers_of("conv", convolution(8, 3, true, init), "norm", batch_norm(), "pool",
                   global_average_pool(), "logits", dense(classes, false, init));
}

NamedLayers layers_of_one_size(Shape, int classes) {
  return layers_of("logits", dense(classes, false, AffineInit{.weight_deviation = 0.1f}));
}

NamedLayers layers_with_windows(Shape shape, int classes) {
  NamedLayers layers = any_size(shape, classes);
  layers.emplace(layers.begin(), "window",
                 convolution(4, 5, true, AffineInit{.weight_deviation = 0.1f},
                             ConvolutionOptions{.padding = Padding::valid}));
  return layers;
}

const ModelEntry kEntry{"small", "", kSample, false, any_size},
    kOneSize{"one_size", "", kSample, false, layers_of_one_size},
    kWindows{"windows", "", kSample, false, layers_with_windows};

std::unique_ptr<Model> whole(Device& device, const ModelEntry& entry, Shape sample = kSample) {
  ModelEntry any = entry;
  any.any_image = true;
  return std::make_unique<Model>(device, any, sample.with_batch(kBatch), kClasses, Type::f32, true);
}

struct NoListener : GradientListener {
  void written(int) override {}
};

/// Logits and gradients of a training step with `models`, which have SizedModels' functions.
template <class Models>
std::vector<float> step(Device& device, Models& models, View images, std::vector<float>& weights,
                        std::int64_t count) {
  std::vector<float> gradients(count);
  models.bind(weights.data(), gradients.data());
  const auto stream = device.stream();
  const std::int64_t position = 0;
  const View logits =
      models.forward(*stream, images, TrainingBatch{.seed = 1, .position = &position});
  stream->synchronize();
  const View slope = models.logits_gradient(0);
  for (std::int64_t i = 0; i < slope.count(); ++i)
    slope.as<float>()[i] = static_cast<float>(i) * 0.01f;
  std::vector<float> result(logits.as<float>(), logits.as<float>() + logits.count());
  NoListener listener;
  models.backward(*stream, images, listener, 0);
  stream->synchronize();
  result.insert(result.end(), gradients.begin(), gradients.end());
  return result;
}

TEST(SmallImages, AStepIsThatOfAModelOnShrunkImages) {
  const auto device = make_cpu_device(1);
  const Images images(kSample.with_batch(kBatch), Type::f32);
  auto full = whole(*device, kEntry);
  const std::int64_t count = full->layout().count;
  std::vector<float> weights(count);
  Random random(2, Purpose::generate, 0, 0);
  for (float& weight : weights) weight = static_cast<float>(random.normal()) * 0.1f;
  auto small = make_small_models(*device, kEntry, kSample, kClasses, *full, {{4, 1.5}, {8, 3}});
  SizedModels models(*device, std::move(full), std::move(small));
  const Shape sizes[] = {{kBatch, 4, 5, 3}, {kBatch, 8, 10, 3}, images.view.shape};
  const double epochs[] = {1.4, 1.5, 3};
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(models.changes(epochs[stage]), stage > 0);
    models.choose(epochs[stage]);
    const Images shrunk(sizes[stage], Type::f32);
    const auto stream = device->stream();
    if (stage < 2) shrink(*stream, images.view, shrunk.view);
    stream->synchronize();
    const auto wanted_model = whole(*device, kEntry, sizes[stage].with_batch(1));
    const auto wanted = step(*device, *wanted_model, shrunk.view, weights, count);
    const auto is = step(*device, models, images.view, weights, count);
    EXPECT_EQ(is, wanted) << "stage " << stage;
  }
  EXPECT_FALSE(models.changes(100));
}

TEST(SmallImages, WorkCountsTheOperationsOfEachEpoch) {
  const auto device = make_cpu_device(1);
  auto full = whole(*device, kEntry);
  const double all = full->training_flops();
  auto small = make_small_models(*device, kEntry, kSample, kClasses, *full, {{4, 1.5}, {8, 3}});
  const double first = small[0].model->training_flops() / all,
               second = small[1].model->training_flops() / all;
  EXPECT_LT(first, 0.12);
  EXPECT_LT(second, 0.45);
  SizedModels models(*device, std::move(full), std::move(small));
  EXPECT_DOUBLE_EQ(models.work(0, 1), first);
  models.choose(2);  // what is over still counts
  EXPECT_DOUBLE_EQ(models.work(1, 4), 0.5 * first + 1.5 * second + 1);
  EXPECT_DOUBLE_EQ(models.work(3, 10), 7);
}

TEST(SmallImages, StagesAreReadAndWritten) {
  EXPECT_EQ(text_of(parse_stages("20:3,24:5.5")), "20:3,24:5.5");
  EXPECT_EQ(text_of({}), "");
  EXPECT_TRUE(parse_stages("none").empty());
  for (const char* wrong : {"20", "20:", ":3", "0:1", "20:0", "-1:2", "20:1e400", "20.5:1", "x:1",
                            "20:3,20:5", "24:3,20:5", "20:3,24:3", "20:3,", "20:3;24:5", "20:nan"})
    expect_error({"--small-images"}, [&] { parse_stages(wrong); });
  std::string many = "1:1";
  for (int i = 2; i < 20; ++i) many += fmt::format(",{}:{}", i, i);
  expect_error({"--small-images", "16 sizes"}, [&] { parse_stages(many); });
}

TEST(SmallImages, WhatCannotShrinkIsRefused) {
  const auto device = make_cpu_device(1);
  const auto full = whole(*device, kEntry), fixed = whole(*device, kOneSize);
  const auto make = [&](const ModelEntry& entry, const Model& model, ImageStages stages) {
    make_small_models(*device, entry, kSample, kClasses, model, stages);
  };
  make(kEntry, *full, {{11, 1}});
  expect_error({"--small-images 12", "15 x 12"}, [&] { make(kEntry, *full, {{12, 1}}); });
  expect_error({"one_size", "depend on the size"}, [&] { make(kOneSize, *fixed, {{4, 1}}); });
  const auto windows = whole(*device, kWindows);
  make(kWindows, *windows, {{5, 1}});
  expect_error({"--small-images", "5 x 4", "windows", "larger window"}, [&] {
    make(kWindows, *windows, {{4, 1}});
  });
  const ModelEntry& words = find(models(), "reuters");
  const Model on_words(*device, words, words.sample.with_batch(kBatch), kClasses, Type::f32, true);
  expect_error({"--small-images needs images"}, [&] {
    make_small_models(*device, words, words.sample, kClasses, on_words, {{4, 1}});
  });
}

}  // namespace
}  // namespace lockstep
