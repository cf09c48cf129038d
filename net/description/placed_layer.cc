#include "net/description/placed_layer.h"

#include <utility>

#include "src/base/check.h"

namespace lockstep {
namespace {

/// An error that names a line already.
class PlacedError : public Error {
 public:
  explicit PlacedError(const std::string& text) : Error(text, kExitUsage) {}
};

/// 256 GiB of floats. The bytes of ten thousand such arrays are below 2^63.
constexpr double kMostElements = 0x1p36;

bool fits(Shape shape) {
  double count = 1;  // because a product of integers may overflow
  for (int axis = 0; axis < shape.rank(); ++axis) count *= static_cast<double>(shape[axis]);
  return count >= 1 && count <= kMostElements;
}

class PlacedLayer : public Layer {
 public:
  PlacedLayer(std::unique_ptr<Layer> layer, std::string place, int classes)
      : layer_(std::move(layer)), place_(std::move(place)), classes_(classes) {}

  Shape setup(Setup& setup, Shape in) override {
    try {
      const Shape out = layer_->setup(setup, in);
      require(fits(out), "the layer returns {}, which is too large", out.text());
      for (const Parameter& parameter : setup.parameters) {
        require(fits(parameter.shape), "its {} are {}, which is too large", parameter.name,
                parameter.shape.text());
      }
      require(classes_ == 0 || out == Shape{in[0], classes_},
              "the last layer returns {}, and the data need {} x {}: one number for each class. "
              "End with type = \"dense\", features = \"$classes\"",
              out.text(), in[0], classes_);
      return out;
    } catch (const PlacedError&) {
      throw;
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {
      throw PlacedError(
          fmt::format("{}: {}. Change this line, or the layers before it.", place_, error.what()));
    }
  }
  void forward(LayerCall& call, View x, View y) override { layer_->forward(call, x, y); }
  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    layer_->backward(call, x, y, dy, dx);
  }
  bool keeps_dy() const override { return layer_->keeps_dy(); }
  double multiply_adds() const override { return layer_->multiply_adds(); }
  std::string implementation() const override { return layer_->implementation(); }
  std::string kind() const override { return layer_->kind(); }

 private:
  std::unique_ptr<Layer> layer_;
  std::string place_;
  int classes_;
};

}  // namespace

std::unique_ptr<Layer> placed(std::unique_ptr<Layer> layer, std::string place, int classes) {
  return std::make_unique<PlacedLayer>(std::move(layer), std::move(place), classes);
}

}  // namespace lockstep
