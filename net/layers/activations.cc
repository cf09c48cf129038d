// ReLU, GELU, SiLU, and the two units that replace SiLU and its step by lines, as layers.

#include "net/layers.h"
#include "net/layers/elementwise.h"
#include "net/layers/units.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

/// The value at x, or the gradient dx.
template <class Unit>
struct Call {
  HOST_DEVICE float operator()(float x) const { return Unit::value(x); }
  HOST_DEVICE float operator()(float x, float dy) const { return Unit::gradient(x, dy); }
};

template <class Unit>
void enqueue_gradient(Stream& stream, View at, View dy, View dx) {
  dispatch(at.type, [&]<class T>(T*) {
    map(stream, at.count(), Call<Unit>{}, dx.as<T>(), at.as<T>(), dy.as<T>());
  });
}

template <class Unit>
class UnitLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      map(*call.stream, x.count(), Call<Unit>{}, y.as<T>(), x.as<T>());
    });
  }
  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    enqueue_gradient<Unit>(*call.stream, x, dy, dx);
  }
  std::string implementation() const override { return Unit::kName; }
};

}  // namespace

void mask_relu(Stream& stream, View y, View dy, View dx) {
  enqueue_gradient<Relu>(stream, y, dy, dx);
}

std::unique_ptr<Layer> relu() { return std::make_unique<UnitLayer<Relu>>(); }
std::unique_ptr<Layer> gelu() { return std::make_unique<UnitLayer<Gelu>>(); }
std::unique_ptr<Layer> silu() { return std::make_unique<UnitLayer<Silu>>(); }
std::unique_ptr<Layer> hard_sigmoid() { return std::make_unique<UnitLayer<HardSigmoid>>(); }
std::unique_ptr<Layer> hard_swish() { return std::make_unique<UnitLayer<HardSwish>>(); }

}  // namespace lockstep
