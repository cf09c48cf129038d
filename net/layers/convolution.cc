#include "net/layers/affine.h"
#include "net/layers/spatial.h"

namespace lockstep {
namespace {

class ConvolutionLayer : public AffineLayer {
 public:
  ConvolutionLayer(std::int64_t filters, std::int64_t kernel, bool relu, AffineInit init,
                   ConvolutionOptions options)
      : AffineLayer(relu, init), filters_(filters), kernel_(kernel), options_(options) {
    expect(options.padding == Padding::valid || kernel % 2 == 1,
           "a convolution that keeps the extent has an odd kernel");
  }

  Shape setup(Setup& setup, Shape in) override {
    const std::string name = "the convolution " + setup.name;
    const std::int64_t groups = options_.groups, reach = (kernel_ - 1) * options_.dilation;
    ConvolutionSpec spec{.input = setup.plan(as_image(in, name)),
                         .filters = filters_,
                         .kernel = kernel_,
                         .stride = options_.stride,
                         .pad = options_.padding == Padding::same ? reach / 2 : 0,
                         .dilation = options_.dilation,
                         .groups = groups,
                         .one_dimensional = in.rank() == 3,
                         .relu = relu_};
    const std::int64_t channels = spec.input.x[3];
    if (groups < 1 || channels % groups != 0 || filters_ % groups != 0) {
      throw Error(name + " cannot cut " + std::to_string(channels) + " channels and " +
                  std::to_string(filters_) + " filters into " + std::to_string(groups) + " groups");
    }
    one_dimensional_ = spec.one_dimensional;
    const Shape out = like(in, spec.output()), weights = spec.weights();
    require_some(out, in, name);
    finish_setup(
        setup, like(in, weights), [&] { return setup.device.convolution(spec); }, out);
    return out;
  }

  std::string kind() const override { return one_dimensional_ ? "conv1d" : "conv2d"; }

 private:
  bool one_dimensional_ = false;
  std::int64_t filters_, kernel_;
  ConvolutionOptions options_;
};

}  // namespace

std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init, ConvolutionOptions options) {
  return std::make_unique<ConvolutionLayer>(filters, kernel, relu, init, options);
}

}  // namespace lockstep
