// Every stride-th element along H and W, and zeros as further channels: the shortcut without
// parameters of He et al. 2015 (option A).

#include "net/layers.h"
#include "src/base/round_up.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// Extents of x (N, in_h, in_w, in_c) and y (N, h, w, c), with in_h in (h * stride - stride,
/// h * stride], the same for in_w, and c >= in_c.
struct Places {
  std::int64_t stride, in_h, in_w, in_c, h, w, c;
};

/// A row is a pixel of y.
template <class T>
struct Forward {
  const T* x;
  T* y;
  Places p;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t column = row % p.w, line = row / p.w % p.h, image = row / (p.w * p.h);
    const T* from = x + ((image * p.in_h + line * p.stride) * p.in_w + column * p.stride) * p.in_c;
    T* to = y + row * p.c;
    for (std::int64_t c = team.lane; c < p.in_c; c += team.lanes) to[c] = from[c];
    for (std::int64_t c = p.in_c + team.lane; c < p.c; c += team.lanes) to[c] = 0.0f;
  }
};

/// A row is a pixel of dx.
template <class T>
struct Backward {
  const T* dy;
  T* dx;
  Places p;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const std::int64_t column = row % p.in_w, line = row / p.in_w % p.in_h,
                       image = row / (p.in_w * p.in_h);
    T* to = dx + row * p.in_c;
    if (column % p.stride != 0 || line % p.stride != 0) {
      for (std::int64_t c = team.lane; c < p.in_c; c += team.lanes) to[c] = 0.0f;
      return;
    }
    const T* from = dy + ((image * p.h + line / p.stride) * p.w + column / p.stride) * p.c;
    for (std::int64_t c = team.lane; c < p.in_c; c += team.lanes) to[c] = from[c];
  }
};

class SubsampleLayer : public Layer {
 public:
  SubsampleLayer(std::int64_t stride, std::int64_t channels)
      : stride_(stride), channels_(channels) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 4 || in[3] > channels_) {
      throw Error("the shortcut " + setup.name + " needs N, H, W and at most " +
                  std::to_string(channels_) + " channels; its input is " + in.text());
    }
    setup.numbers = {{"stride", stride_}};
    const auto kept = [&](int axis) { return ceil_div(in[axis], stride_); };
    const Shape out{in[0], kept(1), kept(2), channels_};
    places_ = {stride_, in[1], in[2], in[3], out[1], out[2], channels_};
    return out;
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      each_row(*call.stream, y.count() / places_.c, places_.c,
               Forward<T>{x.as<T>(), y.as<T>(), places_});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    dispatch(dy.type, [&]<class T>(T*) {
      each_row(*call.stream, dx.count() / places_.in_c, places_.in_c,
               Backward<T>{dy.as<T>(), dx.as<T>(), places_});
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
