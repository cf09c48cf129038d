// y = factor * x + offset.

#include "net/layers.h"
#include "src/device/each.h"

namespace lockstep {
namespace {

template <class T>
struct Line {
  const T* from;
  T* to;
  float factor, offset;
  HOST_DEVICE void operator()(std::int64_t i) const {
    to[i] = factor * static_cast<float>(from[i]) + offset;
  }
};

class RescaleLayer : public Layer {
 public:
  RescaleLayer(float factor, float offset) : factor_(factor), offset_(offset) {}
  Shape setup(Setup&, Shape in) override { return in; }
  void forward(LayerCall& call, View x, View y) override { apply(call, x, y, offset_); }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (dx) apply(call, dy, dx, 0);
  }
  std::string implementation() const override { return "rescale"; }

 private:
  void apply(LayerCall& call, View from, View to, float offset) const {
    dispatch(from.type, [&](auto* tag) {
      using T = std::remove_pointer_t<decltype(tag)>;
      each(*call.stream, from.count(), Line<T>{from.as<T>(), to.as<T>(), factor_, offset});
    });
  }

  float factor_, offset_;
};

}  // namespace

std::unique_ptr<Layer> rescale(float factor, float offset) {
  return std::make_unique<RescaleLayer>(factor, offset);
}

}  // namespace lockstep
