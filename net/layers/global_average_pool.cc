// The mean of each channel over an image.

#include "net/layers/spatial.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  std::int64_t area, channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t sample, Team team) const {
    const T* from = x + sample * area * channels;
    for (std::int64_t c = team.lane; c < channels; c += team.lanes) {
      float sum = 0;
      for (std::int64_t i = 0; i < area; ++i) sum += static_cast<float>(from[i * channels + c]);
      y[sample * channels + c] = sum / static_cast<float>(area);
    }
  }
};

template <class T>
struct Backward {
  const T* dy;
  T* dx;
  std::int64_t area, channels;
  template <class Team>
  HOST_DEVICE void operator()(std::int64_t row, Team team) const {
    const T* from = dy + row / area * channels;
    for (std::int64_t c = team.lane; c < channels; c += team.lanes)
      dx[row * channels + c] = static_cast<float>(from[c]) / static_cast<float>(area);
  }
};

class GlobalAveragePoolLayer : public Layer {
 public:
  Shape setup(Setup& setup, Shape in) override {
    in_ = as_image(in, "the global average-pool " + setup.name);
    return {in_[0], in_[3]};
  }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, in_[0], in_.row(),
               Forward<T>{x.as<T>(), y.as<T>(), in_[1] * in_[2], in_[3]});
    });
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (!dx) return;
    dispatch(dy.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each_row(*call.stream, in_[0] * in_[1] * in_[2], in_[3],
               Backward<T>{dy.as<T>(), dx.as<T>(), in_[1] * in_[2], in_[3]});
    });
  }
  std::string implementation() const override { return "global_average_pool"; }

 private:
  Shape in_;
};

}  // namespace

std::unique_ptr<Layer> global_average_pool() { return std::make_unique<GlobalAveragePoolLayer>(); }

}  // namespace lockstep
