#include "net/layers.h"
#include "net/layers/elementwise.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  HOST_DEVICE void operator()(std::int64_t i) const {
    const float value = x[i];
    y[i] = value <= 0 ? 0.0f : value;  // not a number stays so
  }
};

class ReluLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, x.count(), Forward<T>{x.as<T>(), y.as<T>()});
    });
  }
  void backward(LayerCall& call, View, View y, View dy, View dx) override {
    if (dx) mask_relu(*call.stream, y, dy, dx);
  }
  std::string implementation() const override { return "relu"; }
};

}  // namespace

std::unique_ptr<Layer> relu() { return std::make_unique<ReluLayer>(); }

}  // namespace lockstep
