#include "net/layers/spatial.h"

namespace lockstep {
namespace {

class MaxPoolLayer : public Layer {
 public:
  MaxPoolLayer(std::int64_t kernel, std::int64_t stride, bool relu, Padding padding)
      : kernel_(kernel), stride_(stride), relu_(relu), padding_(padding) {}

  Shape setup(Setup& setup, Shape in) override {
    const std::string name = "the max-pool " + setup.name;
    const MaxPoolSpec spec{.input = setup.plan(as_image(in, name)),
                           .kernel = kernel_,
                           .stride = stride_,
                           .valid = padding_ == Padding::valid,
                           .relu = relu_};
    plan_ = setup.device.max_pool(spec);
    setup.save(spec.output().count());
    return like(in, spec.output());
  }
  void forward(LayerCall& call, View x, View y) override {
    plan_->forward(*call.stream, x, y, argmax(call));
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    if (dx) plan_->backward(*call.stream, dy, argmax(call), dx);
  }
  std::string implementation() const override { return "max_pool"; }

 private:
  static std::uint8_t* argmax(LayerCall& call) {
    return reinterpret_cast<std::uint8_t*>(call.saved);
  }

  std::int64_t kernel_, stride_;
  bool relu_;
  Padding padding_;
  std::unique_ptr<MaxPoolPlan> plan_;
};

}  // namespace

std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu,
                                Padding padding) {
  return std::make_unique<MaxPoolLayer>(kernel, stride, relu, padding);
}

}  // namespace lockstep
