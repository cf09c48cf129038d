// Sequences of tokens: a trained token in front, trained positions, and the first token alone.
//
// Source: Dosovitskiy et al., "An image is worth 16x16 words: transformers for image recognition
// at scale", ICLR 2021.

#include "net/layers.h"
#include "net/layers/elementwise.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

[[noreturn]] void fail_shape(const char* layer, const Setup& setup, const char* needs, Shape in) {
  throw Error(std::string(layer) + " " + setup.name + " needs " + needs + "; its input is " +
              in.text());
}

/// Sequences of `length` + 1 elements y from x and a first one. Backward: dx from dy. A block is a
/// row of `to`.
template <class T, bool kBackward>
struct Prepend {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* from;
  const float* first;
  T* to;
  std::int64_t length, channels;
  bool aligned() const { return aligned_for_packs<kWidth>(from, to, first); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t row, std::int64_t c, Count count) const {
    const std::int64_t sample = quotient(row, kBackward ? length : length + 1);
    const auto copy = [&](const auto* source) {
      const auto value = read(source + c, count);
      write(to + row * channels + c, count, [&](int k) { return value[k]; });
    };
    if (kBackward) {
      copy(from + (row + sample + 1) * channels);
    } else if (row == sample * (length + 1)) {
      copy(first);
    } else {
      copy(from + (row - sample - 1) * channels);
    }
  }
};

/// y = x + a value for each element of a sample. A block is a token.
template <class T>
struct Add {
  static constexpr int kWidth = 16 / sizeof(T);
  const T* x;
  const float* values;
  T* y;
  std::int64_t length, channels;
  bool aligned() const { return aligned_for_packs<kWidth>(x, y, values); }

  template <int kMost, class Count>
  HOST_DEVICE void operator()(std::int64_t row, std::int64_t c, Count count) const {
    const std::int64_t token = row - quotient(row, length) * length;
    const auto own = read(x + row * channels + c, count);
    const auto more = read(values + token * channels + c, count);
    write(y + row * channels + c, count, [&](int k) { return own[k] + more[k]; });
  }
};

/// to[i] = the sum over all samples of element i, in their order on any number of threads.
template <class T>
struct SumSamples {
  const T* dy;
  float* to;
  std::int64_t samples, row;
  HOST_DEVICE void operator()(std::int64_t i) const {
    float sum = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample)
      sum += static_cast<float>(dy[sample * row + i]);
    to[i] = sum;
  }
};

/// The first `columns` values of each row of y come from x, the rest are 0. Or x's rows are longer.
template <class T>
struct Begin {
  const T* x;
  T* y;
  std::int64_t x_row, y_row;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t at = i % y_row;
    y[i] = at < x_row ? static_cast<float>(x[i / y_row * x_row + at]) : 0.0f;
  }
};

class ClassTokenLayer : public Layer {
 public:
  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() < 3) fail_shape("the class token", setup, "N, L, C or N, H, W, C", in);
    channels_ = in.back();
    length_ = in.row() / channels_;
    setup.parameter("values", {1, 1, channels_}, {Init::Kind::constant, 0});
    return {in[0], length_ + 1, channels_};
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_block(
          *call.stream, y.shape[0] * y.shape[1], channels_, 1,
          Prepend<T, false>{x.as<T>(), call.weights[0].as<float>(), y.as<T>(), length_, channels_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each(*call.stream, channels_,
           SumSamples<T>{dy.as<T>(), call.gradients[0].as<float>(), dy.shape[0], dy.shape.row()});
      if (!dx) return;
      each_block(*call.stream, dx.shape[0] * length_, channels_, 1,
                 Prepend<T, true>{dy.as<T>(), nullptr, dx.as<T>(), length_, channels_});
    });
  }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "class_token"; }

 private:
  std::int64_t length_ = 0, channels_ = 0;
};

class PositionEmbeddingLayer : public Layer {
 public:
  explicit PositionEmbeddingLayer(float deviation) : deviation_(deviation) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 3) fail_shape("the position embedding", setup, "N, L, C", in);
    setup.parameter("values", in.with_batch(1), {Init::Kind::truncated_normal, deviation_});
    return in;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      const std::int64_t channels = x.shape.back();
      each_block(*call.stream, x.count() / channels, channels, 1,
                 Add<T>{x.as<T>(), call.weights[0].as<float>(), y.as<T>(), x.shape.row() / channels,
                        channels});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each(*call.stream, dy.shape.row(),
           SumSamples<T>{dy.as<T>(), call.gradients[0].as<float>(), dy.shape[0], dy.shape.row()});
    });
    if (dx) copy(*call.stream, dy, dx);
  }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "position_embedding"; }

 private:
  float deviation_;
};

class FirstTokenLayer : public Layer {
 public:
  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 3) fail_shape("the first token", setup, "N, L, C", in);
    return {in[0], in[2]};
  }
  void forward(LayerCall& call, View x, View y) override { begin(call, x, y); }
  void backward(LayerCall& call, View, View, View dy, View dx) override { begin(call, dy, dx); }
  bool keeps_dy() const override { return true; }
  std::string implementation() const override { return "first_token"; }

 private:
  static void begin(LayerCall& call, View from, View to) {
    dispatch(to.type, [&]<class T>(T*) {
      each(*call.stream, to.count(),
           Begin<T>{from.as<T>(), to.as<T>(), from.shape.row(), to.shape.row()});
    });
  }
};

}  // namespace

std::unique_ptr<Layer> class_token() { return std::make_unique<ClassTokenLayer>(); }
std::unique_ptr<Layer> position_embedding(float deviation) {
  return std::make_unique<PositionEmbeddingLayer>(deviation);
}
std::unique_ptr<Layer> first_token() { return std::make_unique<FirstTokenLayer>(); }

}  // namespace lockstep
