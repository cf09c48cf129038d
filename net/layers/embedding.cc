// Words as vectors. The gradient of a word is the sum over its places in the order of the batch, on
// any number of threads, because each of kParts sums words of its own.
//
// Each part reads all words of the batch and adds those that are its own. This needs neither atomic
// additions, whose order would vary, nor a sort.

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

constexpr std::int64_t kParts = 16;

template <class T>
struct Forward {
  const std::int32_t* words;
  const float* vectors;
  T* y;
  std::int64_t features;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t word, Team team) const {
    const float* vector = vectors + words[word] * features;
    for (std::int64_t i = team.lane; i < features; i += team.lanes)
      y[word * features + i] = vector[i];
  }
};

template <class T>
struct Gradient {
  const std::int32_t* words;
  const T* dy;
  float* to;
  std::int64_t places, vocabulary, features;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t part, Team team) const {
    for (std::int64_t word = part; word < vocabulary; word += kParts) {
      for (std::int64_t c = team.lane; c < features; c += team.lanes) to[word * features + c] = 0;
    }
    for (std::int64_t i = 0; i < places; ++i) {
      const std::int64_t word = words[i];
      if (word % kParts != part) continue;
      for (std::int64_t c = team.lane; c < features; c += team.lanes)
        to[word * features + c] += static_cast<float>(dy[i * features + c]);
    }
  }
};

class EmbeddingLayer : public Layer {
 public:
  EmbeddingLayer(std::int64_t vocabulary, std::int64_t features)
      : vocabulary_(vocabulary), features_(features) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 2)
      throw Error("the embedding " + setup.name + " needs N, L words; its input is " + in.text());
    expect(!setup.input_gradient, "words have no gradient: an embedding is the first layer");
    setup.parameter("vectors", {vocabulary_, features_}, {Init::Kind::uniform, 0.05f});
    return {in[0], in[1], features_};
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(y.type, [&]<class T>(T*) {
      each_row(*call.stream, x.count(), features_,
               Forward<T>{x.as<std::int32_t>(), call.weights[0].as<float>(), y.as<T>(), features_});
    });
  }
  void backward(LayerCall& call, View x, View, View dy, View) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, kParts, (vocabulary_ + x.count()) * features_ / kParts,
               Gradient<T>{x.as<std::int32_t>(), dy.as<T>(), call.gradients[0].as<float>(),
                           x.count(), vocabulary_, features_});
    });
  }
  std::string implementation() const override { return "embedding"; }

 private:
  std::int64_t vocabulary_, features_;
};

}  // namespace

std::unique_ptr<Layer> embedding(std::int64_t vocabulary, std::int64_t features) {
  return std::make_unique<EmbeddingLayer>(vocabulary, features);
}

}  // namespace lockstep
