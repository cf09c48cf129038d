// The loss on a GPU: gradients within rounding of the CPU's, scores and confusion.
#include "net/loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "src/base/random.h"
#include "src/device/cuda/device.h"

namespace lockstep {
namespace {

struct Outcome {
  std::vector<double> gradient;
  Score score;
  std::vector<std::int64_t> confusion;
};

Outcome outcome(Device& device, Type type, std::int64_t samples, std::int64_t classes) {
  const auto stream = device.stream();
  const Shape shape{samples, classes};
  const std::size_t bytes = static_cast<std::size_t>(shape.count()) * size_of(type),
                    counts = static_cast<std::size_t>(classes * classes) * sizeof(std::int64_t);
  const auto label_bytes = static_cast<std::size_t>(samples) * sizeof(std::int32_t);
  const Memory host = device.allocate(bytes, Place::host),
               host_labels = device.allocate(label_bytes, Place::host),
               host_results = device.allocate(sizeof(Score) + counts, Place::host),
               logits = device.allocate(bytes, Place::device),
               labels = device.allocate(label_bytes, Place::device),
               gradient = device.allocate(bytes, Place::device),
               results = device.allocate(sizeof(Score) + counts, Place::device);
  Random random(9, Purpose::generate, 0, 0);
  dispatch(type, [&]<class T>(T*) {
    for (std::int64_t i = 0; i < shape.count(); ++i)
      reinterpret_cast<T*>(host.get())[i] = 3 * random.normal();
  });
  for (std::int64_t n = 0; n < samples; ++n) {
    reinterpret_cast<std::int32_t*>(host_labels.get())[n] =
        static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes)));
  }
  device.copy(*stream, logits.get(), host.get(), bytes);
  device.copy(*stream, labels.get(), host_labels.get(), label_bytes);
  softmax_cross_entropy(*stream, {logits.get(), shape, type}, {labels.get(), {samples}, Type::i32},
                        1, {gradient.get(), shape, type}, reinterpret_cast<Score*>(results.get()),
                        reinterpret_cast<std::int64_t*>(results.get() + sizeof(Score)), 0.125f);
  device.copy(*stream, host.get(), gradient.get(), bytes);
  device.copy(*stream, host_results.get(), results.get(), sizeof(Score) + counts);
  stream->synchronize();
  Outcome result;
  dispatch(type, [&]<class T>(T*) {
    for (std::int64_t i = 0; i < shape.count(); ++i)
      result.gradient.push_back(static_cast<float>(reinterpret_cast<const T*>(host.get())[i]));
  });
  std::memcpy(&result.score, host_results.get(), sizeof(Score));
  result.confusion.resize(static_cast<std::size_t>(classes * classes));
  std::memcpy(result.confusion.data(), host_results.get() + sizeof(Score), counts);
  return result;
}

TEST(LossOnGpu, IsTheCpus) {
  const auto gpu = make_cuda_device({.threads = 1});
  const auto cpu = make_cpu_device(1);
  for (const Type type : {Type::f32, Type::bf16, Type::f16}) {
    for (const auto& [samples, classes] : {std::pair{1, 10}, {128, 10}, {33, 46}, {2000, 1000}}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << samples << " x " << classes);
      const Outcome is = outcome(*gpu, type, samples, classes),
                    wanted = outcome(*cpu, type, samples, classes);
      const double tolerance = type == Type::f32 ? 1e-5 : type == Type::f16 ? 1e-3 : 1e-2;
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
