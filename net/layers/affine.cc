// Convolution and dense layers: parameters, calls of the device's plan, and the ReLU's part of the
// gradient.

#include <cmath>
#include <functional>
#include <memory>

#include "net/layers/elementwise.h"
#include "net/layers/spatial.h"

namespace lockstep {
namespace {

class AffineLayer : public Layer {
 public:
  AffineLayer(bool relu, AffineInit init) : relu_(relu), init_(init) {}

  void forward(LayerCall& call, View x, View y) override {
    plan_->forward(*call.stream, x, call.weights[0], biases(call.weights), y, call.scratch);
  }
  void backward(LayerCall& call, View x, View y, View dy, View dx) override {
    // The mask of y is that of the sum before the ReLU, which is not saved. dy is this layer's to
    // overwrite.
    if (relu_) mask_relu(*call.stream, y, dy, dy);
    plan_->backward_weights(*call.stream, x, dy, init_.frozen ? View() : call.gradients[0],
                            biases(call.gradients), call.scratch);
    if (dx) plan_->backward_data(*call.stream, dy, call.weights[0], dx, call.scratch);
  }
  double multiply_adds() const override { return multiply_adds_; }
  bool keeps_dy() const override { return !relu_; }
  std::string implementation() const override { return plan_->implementation(); }

 protected:
  /// Asks for parameters and scratch at the end of setup(). If `plan` throws, the error begins with
  /// the layer's name.
  void finish_setup(Setup& setup, Shape weights,
                    const std::function<std::unique_ptr<AffinePlan>()>& plan, Shape out) {
    // oneDNN ends the process by SIGFPE for larger samples.
    constexpr double kMostElements = 0x1p36;
    if (static_cast<double>(out.row()) > kMostElements)
      throw Error("the layer returns " + out.text() + ", which is too large");
    try {
      plan_ = plan();
    } catch (const Error& error) {
      throw Error("layer " + setup.name + ": " + error.what(), error.exit_code());
    }
    // The inputs and outputs of a window: all taps of the channels that a filter reads, and all
    // taps of the filters.
    const std::int64_t filters = weights[0], inputs = weights.row(),
                       outputs = filters * (inputs / weights.back());
    const auto root = [](float of, std::int64_t ends) {
      return std::sqrt(of / static_cast<float>(ends));
    };
    Init begin{Init::Kind::truncated_normal, init_.weight_deviation, init_.dirac};
    if (init_.he != He::none) begin.scale = root(2, init_.he == He::inputs ? inputs : outputs);
    if (init_.lecun) begin.scale = root(1, inputs);
    if (init_.glorot) begin = {Init::Kind::uniform, root(6, inputs + outputs), init_.dirac};
    if (init_.uniform > 0) begin = {Init::Kind::uniform, init_.uniform, init_.dirac};
    setup.parameter("weights", weights, begin, init_.l2, init_.frozen ? 0.0f : 1.0f);
    if (init_.biases) setup.parameter("biases", {filters}, {Init::Kind::constant, init_.bias});
    setup.scratch(plan_->scratch_bytes());
    multiply_adds_ = static_cast<double>(out.count()) * static_cast<double>(inputs);
  }

  /// Setup::plan() of the layer.
  PlanInput plan_input(const Setup& setup, Shape in) const {
    PlanInput input = setup.plan(in);
    input.frozen = init_.frozen;
    return input;
  }

  bool relu_;
  AffineInit init_;

 private:
  /// The second view of `of`, or an empty view without biases.
  View biases(std::span<const View> of) const { return init_.biases ? of[1] : View(); }

  std::unique_ptr<AffinePlan> plan_;
  double multiply_adds_ = 0;
};

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
    ConvolutionSpec spec{.input = plan_input(setup, as_image(in, name)),
                         .filters = filters_,
                         .kernel = kernel_,
                         .stride = options_.stride,
                         .pad = options_.padding == Padding::valid ? 0 : reach / 2,
                         .dilation = options_.dilation,
                         .groups = groups,
                         .one_dimensional = in.rank() == 3,
                         .relu = relu_,
                         .biases = init_.biases};
    const std::int64_t channels = spec.input.x[3];
    if (groups < 1 || channels % groups != 0 || filters_ % groups != 0) {
      throw Error(name + " cannot cut " + std::to_string(channels) + " channels and " +
                  std::to_string(filters_) + " filters into " + std::to_string(groups) + " groups");
    }
    one_dimensional_ = spec.one_dimensional;
    setup.numbers = {{"stride", spec.stride},
                     {"pad", spec.pad},
                     {"dilation", spec.dilation},
                     {"groups", groups},
                     {"relu", relu_}};
    const Shape out = like(in, spec.output()), weights = spec.weights();
    for (const int axis : {1, 2}) {
      if (axis == 1 && one_dimensional_) continue;
      // In C++ (3 - 4) / 2 + 1 is 1, so that the number of windows would not reveal this.
      if (spec.input.x[axis] + 2 * spec.pad <= reach)
        throw Error(name + " has a larger window than its input, " + in.text());
    }
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

/// `shape` with another innermost extent.
Shape with_last(Shape shape, std::int64_t extent) {
  if (shape.rank() == 2) return {shape[0], extent};
  if (shape.rank() == 3) return {shape[0], shape[1], extent};
  return {shape[0], shape[1], shape[2], extent};
}

class DenseLayer : public AffineLayer {
 public:
  /// `rows`: over the last extent, else over all features of a sample.
  DenseLayer(std::int64_t features, bool relu, AffineInit init, bool rows)
      : AffineLayer(relu, init), features_(features), rows_(rows) {}

  Shape setup(Setup& setup, Shape in) override {
    const std::int64_t inputs = rows_ ? in.back() : in.row();
    const Shape rows{in.count() / inputs, inputs};
    const DenseSpec spec{.input = plan_input(setup, rows),
                         .features = features_,
                         .relu = relu_,
                         .biases = init_.biases};
    const Shape out = rows_ ? with_last(in, features_) : Shape{in[0], features_};
    setup.numbers = {{"relu", relu_}};
    finish_setup(
        setup, {features_, inputs}, [&] { return setup.device.dense(spec); }, out);
    return out;
  }

  std::string kind() const override { return "dense"; }

 private:
  std::int64_t features_;
  bool rows_;
};

}  // namespace

std::unique_ptr<Layer> convolution(std::int64_t filters, std::int64_t kernel, bool relu,
                                   AffineInit init, ConvolutionOptions options) {
  return std::make_unique<ConvolutionLayer>(filters, kernel, relu, init, options);
}

std::unique_ptr<Layer> dense(std::int64_t features, bool relu, AffineInit init) {
  return std::make_unique<DenseLayer>(features, relu, init, /*rows=*/false);
}

std::unique_ptr<Layer> linear(std::int64_t features, AffineInit init) {
  return std::make_unique<DenseLayer>(features, /*relu=*/false, init, /*rows=*/true);
}

}  // namespace lockstep
