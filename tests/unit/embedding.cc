// The embedding, whose x are words: forward is a look-up, and the gradient of a word is the sum
// over its places, on any number of threads and on a device whose work is done later.
#include <gtest/gtest.h>

#include <vector>

#include "net/layers.h"
#include "src/base/random.h"
#include "tests/support/async_device.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

constexpr std::int64_t kVocabulary = 37, kFeatures = 7, kSamples = 5, kLength = 90;

struct Outcome {
  std::vector<std::int32_t> words;
  std::vector<float> vectors, y, dy, gradient;
};

/// One forward and backward of `type` on random words, of which the last is in the vocabulary but
/// not in the batch. What is of `type` is given as floats.
Outcome run(Device& device, Type type) {
  const auto stream = device.stream();
  Setup setup(device, type, true, /*input_gradient=*/false, "words");
  const auto layer = embedding(kVocabulary, kFeatures);
  const Shape y_shape = layer->setup(setup, {kSamples, kLength});
  EXPECT_EQ(y_shape, (Shape{kSamples, kLength, kFeatures}));
  EXPECT_EQ(setup.parameters.at(0).shape, (Shape{kVocabulary, kFeatures}));

  Outcome o;
  Random random(3, Purpose::generate, 0, 0);
  for (std::int64_t i = 0; i < kSamples * kLength; ++i)
    o.words.push_back(static_cast<std::int32_t>(random.below(kVocabulary - 1)));
  for (std::int64_t i = 0; i < kVocabulary * kFeatures; ++i)
    o.vectors.push_back(Bfloat16(random.uniform(-1, 1)));
  for (std::int64_t i = 0; i < y_shape.count(); ++i)
    o.dy.push_back(Bfloat16(random.uniform(-1, 1)));

  const auto put = [&](const Memory& at, const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    const Memory host = device.allocate(bytes, Place::host);
    std::memcpy(host.get(), values.data(), bytes);
    device.copy(*stream, at.get(), host.get(), bytes);
    stream->synchronize();
  };
  const auto get = [&](const void* from, std::size_t count, Type as) {
    const std::size_t bytes = count * size_of(as);
    const Memory host = device.allocate(bytes, Place::host);
    device.copy(*stream, host.get(), from, bytes);
    stream->synchronize();
    std::vector<float> values;
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(as == Type::bf16 ? float{reinterpret_cast<Bfloat16*>(host.get())[i]}
                                        : reinterpret_cast<float*>(host.get())[i]);
    }
    return values;
  };
  const std::size_t count = o.dy.size();
  const Memory x = device.allocate(o.words.size() * 4, Place::device),
               w = device.allocate(o.vectors.size() * 4, Place::device),
               dw = device.allocate(o.vectors.size() * 4, Place::device),
               y = device.allocate(count * 4, Place::device),
               dy = device.allocate(count * 4, Place::device);
  put(x, o.words);
  put(w, o.vectors);
  put(dw, std::vector<float>(o.vectors.size(), NAN));
  if (type == Type::bf16) {
    put(dy, std::vector<Bfloat16>(o.dy.begin(), o.dy.end()));
  } else {
    put(dy, o.dy);
  }
  const View words{x.get(), {kSamples, kLength}, Type::i32}, out{y.get(), y_shape, type},
      upstream{dy.get(), y_shape, type}, weights{w.get(), {kVocabulary, kFeatures}, Type::f32},
      gradients{dw.get(), {kVocabulary, kFeatures}, Type::f32};
  LayerCall call;
  call.stream = stream.get();
  call.weights = {&weights, 1};
  call.gradients = {&gradients, 1};
  layer->forward(call, words, out);
  layer->backward(call, words, out, upstream, {});
  stream->synchronize();
  o.y = get(y.get(), count, type);
  o.gradient = get(dw.get(), o.vectors.size(), Type::f32);
  return o;
}

class Embedding : public testing::TestWithParam<Type> {};

TEST_P(Embedding, LooksUpAndSumsInTheOrderOfTheBatch) {
  const Outcome o = run(*make_cpu_device(1), GetParam());
  std::vector<float> expected(o.vectors.size());
  for (std::size_t i = 0; i < o.words.size(); ++i) {
    for (std::size_t f = 0; f < kFeatures; ++f) {
      const std::size_t place = static_cast<std::size_t>(o.words[i]) * kFeatures + f;
      ASSERT_EQ(o.y[i * kFeatures + f], o.vectors[place]);
      expected[place] += o.dy[i * kFeatures + f];
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
