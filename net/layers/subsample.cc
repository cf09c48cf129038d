// Every stride-th element along H and W, with channels of zeros behind those that there are: the
// shortcut without parameters of He et al. 2015 (option A).

#include "net/layers.h"
#include "src/each.h"
#include "src/round_up.h"

namespace lockstep {
namespace {

/// Of images: in (N, h * stride, w * stride or up to stride - 1 less, c) and out (N, h, w, more c).
struct Places {
  std::int64_t stride, in_h, in_w, in_c, h, w, c;

  /// Of what stands in out at place i; -1: a zero.
  HOST_DEVICE constexpr std::int64_t source(std::int64_t i) const {
    const std::int64_t channel = i % c, x = i / c % w, y = i / (c * w) % h, n = i / (c * w * h);
    if (channel >= in_c) return -1;
    return ((n * in_h + y * stride) * in_w + x * stride) * in_c + channel;
  }
  /// Where in's element i goes to; -1: nowhere.
  HOST_DEVICE constexpr std::int64_t target(std::int64_t i) const {
    const std::int64_t channel = i % in_c, x = i / in_c % in_w, y = i / (in_c * in_w) % in_h,
                       n = i / (in_c * in_w * in_h);
    if (x % stride != 0 || y % stride != 0) return -1;
    return ((n * h + y / stride) * w + x / stride) * c + channel;
  }
};

template <class T>
struct Forward {
  const T* x;
  T* y;
  Places places;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t from = places.source(i);
    y[i] = from < 0 ? 0.0f : static_cast<float>(x[from]);
  }
};

template <class T>
struct Backward {
  const T* dy;
  T* dx;
  Places places;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const std::int64_t to = places.target(i);
    dx[i] = to < 0 ? 0.0f : static_cast<float>(dy[to]);
  }
};

class SubsampleLayer : public Layer {
 public:
  SubsampleLayer(std::int64_t stride, std::int64_t channels)
      : stride_(stride), channels_(channels) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 4 || in[3] > channels_) {
      throw Error("the shortcut " + setup.name + " wants N, H, W and at most " +
                  std::to_string(channels_) + " channels, and is given " + in.text());
    }
    const auto kept = [&](int axis) { return ceil_div(in[axis], stride_); };
    const Shape out{in[0], kept(1), kept(2), channels_};
    places_ = {stride_, in[1], in[2], in[3], out[1], out[2], channels_};
    return out;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, y.count(), Forward<T>{x.as<T>(), y.as<T>(), places_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, dx.count(), Backward<T>{dy.as<T>(), dx.as<T>(), places_});
    });
  }
  std::string implementation() const override { return "subsample"; }

 private:
  std::int64_t stride_, channels_;
  Places places_{};
};

}  // namespace

std::unique_ptr<Layer> subsample(std::int64_t stride, std::int64_t channels) {
  return std::make_unique<SubsampleLayer>(stride, channels);
}

}  // namespace lockstep
