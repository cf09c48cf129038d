#include "net/layers.h"
#include "net/layers/elementwise.h"

namespace lockstep {
namespace {

class FlattenLayer : public Layer {
 public:
  Shape setup(Setup&, Shape in) override { return {in[0], in.row()}; }
  void forward(LayerCall& call, View x, View y) override { copy(*call.stream, x, y); }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (dx) copy(*call.stream, dy, dx);
  }
  std::string implementation() const override { return "flatten"; }
};

}  // namespace

std::unique_ptr<Layer> flatten() { return std::make_unique<FlattenLayer>(); }

}  // namespace lockstep
