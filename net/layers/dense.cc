#include "net/layers/affine.h"

namespace lockstep {
namespace {

class DenseLayer : public AffineLayer {
 public:
  DenseLayer(std::int64_t features, bool relu, AffineInit init)
      : AffineLayer(relu, init), features_(features) {}

  Shape setup(Setup& setup, Shape in) override {
    const DenseSpec spec{.input = setup.plan(in), .features = features_, .relu = relu_};
    const Shape out{in[0], features_};
    finish_setup(
        setup, {features_, in.row()}, [&] { return setup.device.dense(spec); }, out);
    return out;
  }

  std::string kind() const override { return "dense"; }

 private:
  std::int64_t features_;
};

}  // namespace

std::unique_ptr<Layer> dense(std::int64_t features, bool relu, AffineInit init) {
  return std::make_unique<DenseLayer>(features, relu, init);
}

}  // namespace lockstep
