// The loss on a GPU: gradients within rounding of the CPU's, scores and confusion.
#include "net/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "tests/support/device_array.h"

namespace lockstep {
namespace {

struct Outcome {
  std::vector<double> gradient;
  Score score;
  std::vector<std::int64_t> confusion;
};

template <class T>
Outcome outcome_of(Device& device, std::int64_t samples, std::int64_t classes) {
  const auto stream = device.stream();
  const Shape shape{samples, classes};
  Random random(9, Purpose::generate, 0, 0);
  std::vector<T> noise(shape.count());
  std::vector<std::int32_t> classes_of(samples);
  for (T& value : noise) value = 3 * random.normal();
  for (std::int32_t& label : classes_of)
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  const DeviceArray<T> logits(device, *stream, noise), gradient(device, *stream, noise);
  const DeviceArray<std::int32_t> labels(device, *stream, classes_of);
  const DeviceArray<Score> score(device, *stream, {Score()});
  const DeviceArray<std::int64_t> confusion(device, *stream,
                                            std::vector<std::int64_t>(classes * classes));
  softmax_cross_entropy(*stream, {.logits = {logits.data(), shape, type_of<T>},
                                  .labels = {labels.data(), {samples}, Type::i32},
                                  .score = score.data(),
                                  .gradient = {gradient.data(), shape, type_of<T>},
                                  .confusion = confusion.data(),
                                  .modifiers = {{}, {}, {0.125f}}});
  const std::vector<T> slopes = gradient.values();
  return {{slopes.begin(), slopes.end()}, score.values()[0], confusion.values()};
}

Outcome outcome(Device& device, Type type, std::int64_t samples, std::int64_t classes) {
  return dispatch(type, [&]<class T>(T*) { return outcome_of<T>(device, samples, classes); });
}

TEST(LossOnGpu, IsTheCpus) {
  const auto gpu = make_cuda_device({.threads = 1});
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16}) {
    for (const auto& [samples, classes] : {std::pair{1, 10}, {128, 10}, {33, 46}, {2000, 1000}}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << samples << " x " << classes);
      const Outcome is = outcome(*gpu, type, samples, classes),
                    wanted = outcome(*cpu, type, samples, classes);
      const double tolerance = type == Type::f32 ? 1e-5 : 1e-2;
      double worst = 0;
      for (std::size_t i = 0; i < wanted.gradient.size(); ++i) {
        const double error = std::abs(is.gradient[i] - wanted.gradient[i]);
        worst = error <= worst ? worst : error;  // NaN stays
      }
      EXPECT_LT(worst, tolerance);
      EXPECT_NEAR(is.score.loss(), wanted.score.loss(), 1e-5 * wanted.score.loss());
      EXPECT_EQ(is.score.samples, samples);
      EXPECT_EQ(is.score.top1, wanted.score.top1);
      EXPECT_EQ(is.score.top5, wanted.score.top5);
      EXPECT_EQ(is.confusion, wanted.confusion);
    }
  }
}

}  // namespace
}  // namespace lockstep
