#include "net/layers/affine.h"

namespace lockstep {
namespace {

class ConvolutionLayer : public AffineLayer {
 public:
  ConvolutionLayer(std::int64_t filters, std::int64_t kernel, bool relu, AffineInit init)
      : AffineLayer(relu, init), filters_(filters), kernel_(kernel) {}

  Shape setup(Setup& setup, Shape in) override {
    expect(in.rank() == 4, "a convolution wants N, H, W, C");
    const ConvolutionSpec spec{.input = setup.plan(in),
                               .filters = filters_,
                               .kernel = kernel_,
                               .pad = kernel_ / 2,
                               .relu = relu_};
    finish_setup(setup, {filters_, kernel_, kernel_, in[3]}, setup.device.convolution(spec),
                 spec.output());
    return spec.output();
  }

 private:
  std::int64_t filters_, kernel_;
};

}  // namespace

std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init) {
  return std::make_unique<ConvolutionLayer>(filters, kernel, relu, init);
}

}  // namespace lockstep
