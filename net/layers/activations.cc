// ReLU, GELU, SiLU, and the two units that replace SiLU and its step by lines, as layers.

#include "net/layers.h"
#include "net/layers/units.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class Unit>
struct Value {
  HOST_DEVICE float operator()(float x) const { return Unit::value(x); }
};

template <class Unit>
struct Gradient {
  HOST_DEVICE float operator()(float at, float dy) const { return Unit::gradient(at, dy); }
};

template <class Unit>
class UnitLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override {
    dispatch(x.type, [&]<class T>(T*) {
      map(*call.stream, x.count(), Value<Unit>{}, y.as<T>(), x.as<T>());
    });
  }
  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    const View at = Unit::kFromOutput ? y : x;
    dispatch(x.type, [&]<class T>(T*) {
      map(*call.stream, x.count(), Gradient<Unit>{}, dx.as<T>(), at.as<T>(), dy.as<T>());
    });
  }
  std::string implementation() const override { return Unit::kName; }
};

}  // namespace

std::unique_ptr<Layer> relu() { return std::make_unique<UnitLayer<Relu>>(); }
std::unique_ptr<Layer> gelu() { return std::make_unique<UnitLayer<Gelu>>(); }
std::unique_ptr<Layer> silu() { return std::make_unique<UnitLayer<Silu>>(); }
std::unique_ptr<Layer> hard_sigmoid() { return std::make_unique<UnitLayer<HardSigmoid>>(); }
std::unique_ptr<Layer> hard_swish() { return std::make_unique<UnitLayer<HardSwish>>(); }

}  // namespace lockstep
