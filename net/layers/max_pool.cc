#include "net/layers.h"

namespace lockstep {
namespace {

class MaxPoolLayer : public Layer {
 public:
  MaxPoolLayer(std::int64_t kernel, std::int64_t stride, bool relu)
      : kernel_(kernel), stride_(stride), relu_(relu) {}

  Shape setup(Setup& setup, Shape in) override {
    expect(in.rank() == 4, "max-pooling wants N, H, W, C");
    const MaxPoolSpec spec{
        .input = setup.plan(in), .kernel = kernel_, .stride = stride_, .relu = relu_};
    plan_ = setup.device.max_pool(spec);
    setup.save(static_cast<std::size_t>(spec.output().count()));
    return spec.output();
  }
  void forward(LayerCall& call, View x, View y) override {
    plan_->forward(*call.stream, x, y, argmax(call));
  }
  void backward(LayerCall& call, View, View, View dy, View dx) override {
    plan_->backward(*call.stream, dy, argmax(call), dx);
  }
  std::string implementation() const override { return "max_pool"; }

 private:
  static std::uint8_t* argmax(LayerCall& call) {
    return reinterpret_cast<std::uint8_t*>(call.saved);
  }

  std::int64_t kernel_, stride_;
  bool relu_;
  std::unique_ptr<MaxPoolPlan> plan_;
};

}  // namespace

std::unique_ptr<Layer> max_pool(std::int64_t kernel, std::int64_t stride, bool relu) {
  return std::make_unique<MaxPoolLayer>(kernel, stride, relu);
}

}  // namespace lockstep
