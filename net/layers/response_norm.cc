#include "net/layers.h"

namespace lockstep {
namespace {

class ResponseNormLayer : public Layer {
 public:
  explicit ResponseNormLayer(ResponseNormSpec spec) : spec_(spec) {}

  Shape setup(Setup& setup, Shape in) override {
    if (in.rank() != 4) {
      throw Error("the response normalisation " + setup.name + " needs N, H, W, C; its input is " +
                  in.text());
    }
    spec_.input = setup.plan(in);
    setup.numbers = {{"radius", spec_.radius},
                     {"bias", spec_.bias},
                     {"alpha", spec_.alpha},
                     {"beta", spec_.beta}};
    plan_ = setup.device.response_norm(spec_);
    setup.scratch(plan_->scratch_bytes());
    return in;
  }
  void forward(LayerCall& call, View x, View y) override { plan_->forward(*call.stream, x, y); }
  void backward(LayerCall& call, View x, View, View dy, View dx) override {
    plan_->backward(*call.stream, x, dy, dx, call.scratch);
  }
  std::string implementation() const override { return "response_norm"; }

 private:
  ResponseNormSpec spec_;
  std::unique_ptr<ResponseNormPlan> plan_;
};

}  // namespace

std::unique_ptr<Layer> response_norm(std::int64_t radius, float bias, float alpha, float beta) {
  return std::make_unique<ResponseNormLayer>(
      ResponseNormSpec{.input = {}, .radius = radius, .bias = bias, .alpha = alpha, .beta = beta});
}

}  // namespace lockstep
