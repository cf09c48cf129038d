// The embedding, whose x are words: forward is a look-up, and the gradient of a word is the sum
// over its places, on any number of threads and on a device whose work is done later.
#include <gtest/gtest.h>

#include "net/layers.h"
#include "tests/support/async_device.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor.h"

namespace lockstep {
namespace {

constexpr std::int64_t kVocabulary = 37, kFeatures = 7, kSamples = 5, kLength = 90;

struct Outcome {
  Values words, vectors, y, dy, gradient;
};

/// One forward and backward of `type` on random words, of which the last is in the vocabulary but
/// not in the batch.
Outcome run(Device& device, Type type) {
  const auto stream = device.stream();
  Setup setup(device, type, true, /*input_gradient=*/false, "words");
  const auto layer = embedding(kVocabulary, kFeatures);
  const Shape y_shape = layer->setup(setup, {kSamples, kLength});
  EXPECT_EQ(y_shape, (Shape{kSamples, kLength, kFeatures}));
  EXPECT_EQ(setup.parameters.at(0).shape, (Shape{kVocabulary, kFeatures}));

  Random random(3, Purpose::generate, 0, 0);
  Values numbers(kSamples * kLength);
  for (double& number : numbers) number = random.below(kVocabulary - 1);
  Tensor words(device, {kSamples, kLength}, Type::i32),
      vectors(device, {kVocabulary, kFeatures}, Type::f32),
      gradient(device, {kVocabulary, kFeatures}, Type::f32), y(device, y_shape, type),
      dy(device, y_shape, type);
  words.set(numbers);
  vectors.fill(random, 1, /*coarse=*/true);
  dy.fill(random, 1, /*coarse=*/true);
  LayerCall call;
  call.stream = stream.get();
  call.weights = {&vectors.view, 1};
  call.gradients = {&gradient.view, 1};
  layer->forward(call, words.view, y.view);
  layer->backward(call, words.view, y.view, dy.view, {});
  stream->synchronize();
  return {numbers, vectors.values(), y.values(), dy.values(), gradient.values()};
}

class Embedding : public testing::TestWithParam<Type> {};

TEST_P(Embedding, LooksUpAndSumsInTheOrderOfTheBatch) {
  const Outcome o = run(*make_cpu_device(1), GetParam());
  Values expected(o.vectors.size());
  for (std::size_t i = 0; i < o.words.size(); ++i) {
    for (std::size_t f = 0; f < kFeatures; ++f) {
      const std::size_t place = static_cast<std::size_t>(o.words[i]) * kFeatures + f;
      ASSERT_EQ(o.y[i * kFeatures + f], o.vectors[place]);
      expected[place] = static_cast<float>(expected[place] + o.dy[i * kFeatures + f]);
    }
  }
  EXPECT_EQ(o.gradient, expected);
}

TEST_P(Embedding, GivesTheSameBitsOnSeveralThreadsAndLater) {
  const Outcome one = run(*make_cpu_device(1), GetParam()),
                three = run(*make_cpu_device(3), GetParam()),
                later = run(*make_async_device(), GetParam());
  EXPECT_EQ(three.gradient, one.gradient);
  EXPECT_EQ(later.gradient, one.gradient);
  EXPECT_EQ(later.y, one.y);
}

INSTANTIATE_TEST_SUITE_P(Types, Embedding, testing::Values(Type::f32, Type::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(EmbeddingLayer, RefusesInputsThatAreNoWords) {
  const auto device = make_cpu_device(1);
  lockstep::Setup setup(*device, Type::f32, true, false, "words");
  EXPECT_EQ(error_of([&] {
              embedding(5, 3)->setup(setup, {2, 4, 4, 3});
            }),
            "the embedding words needs N, L words; its input is 2x4x4x3");
}

}  // namespace
}  // namespace lockstep
