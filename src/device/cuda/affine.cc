// A dense layer is a convolution of 1x1 images with 1x1 filters.
//
// cuDNN 9 has no engine with 16-bit inputs and an fp32 result. So a 16-bit plan converts weights
// and biases into scratch at every call, and dw is rounded once to the plan's type before it is
// widened. db is computed here, in fp32.
//
// So is the ReLU of dense layers: cuBLASLt's fused one makes 0 of NaN, and a run that diverges
// would go on with a loss that is finite.

#include <algorithm>

#include "src/base/check.h"
#include "src/device/arena.h"
#include "src/device/cuda/layers.h"
#include "src/device/cuda/rows.h"
#include "src/device/stacked.h"

namespace lockstep::cuda {
namespace {

using Chosen = std::shared_ptr<const Plan>;

class CudaAffine : public AffinePlan {
 public:
  /// `work`: the forward pass without bias and ReLU.
  CudaAffine(const Libraries& libraries, Convolution work, const PlanInput& input, bool relu,
             bool biases)
      : work_(std::move(work)), biases_(biases) {
    expect(work_.type != Type::i32, "the libraries of a GPU lack this type");
    // First a kernel is asked for that adds the bias and applies ReLU itself. If no library has
    // one, the bare product is planned, and a kernel of our own does the rest.
    Convolution fused = work_;
    fused.bias = biases;
    fused.relu = relu && !work_.dense();
    forward_ = choose(libraries, fused);
    adds_bias_ = biases && forward_ == nullptr;
    adds_relu_ = relu && !(forward_ != nullptr && fused.relu);
    if (forward_ == nullptr) forward_ = required(libraries, Pass::forward);
    if (input.training && input.input_gradient)
      backward_data_ = required(libraries, Pass::backward_data);
    if (input.training && !input.frozen)
      backward_weights_ = required(libraries, Pass::backward_weights);
    plan_scratch(input.training);
  }

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    const Places at(scratch, *this);
    const View bias = biases_ && !adds_bias_ ? narrowed(stream, b, at.vector) : View{};
    forward_->run(stream, {x.data, narrowed(stream, w, at.weights).data, bias.data, y.data},
                  at.workspace);
    if (adds_bias_ || adds_relu_) add_bias(stream, y, adds_bias_ ? b : View{}, adds_relu_);
  }

  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    const Places at(scratch, *this);
    backward_data_->run(stream, {dx.data, narrowed(stream, w, at.weights).data, nullptr, dy.data},
                        at.workspace);
  }

  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    const Places at(scratch, *this);
    if (biases_) sum_rows(stream, dy, db, at.vector);
    if (!dw) return;
    View own = dw;
    // The same part of scratch serves converted weights in the other passes. Each call writes it
    // anew.
    if (work_.type != Type::f32) own = {at.weights, dw.shape, work_.type};
    backward_weights_->run(stream, {x.data, own.data, nullptr, dy.data}, at.workspace);
    if (own.data != dw.data) convert(stream, own, dw);
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::string implementation() const override {
    const char* after = adds_relu_ ? " and ReLU" : "";
    return forward_->name() + (adds_bias_ ? " and bias" : after);
  }

 private:
  /// The layout of scratch: weights or their gradient in the plan's type, biases in that type or
  /// partial sums of db, and the engine's workspace.
  struct Places {
    std::byte *weights, *vector, *workspace;
    Places(void* scratch, const CudaAffine& plan)
        : weights(static_cast<std::byte*>(scratch)),
          vector(weights + plan.weights_bytes_),
          workspace(vector + plan.vector_bytes_) {}
  };

  Chosen required(const Libraries& libraries, Pass pass) const {
    Convolution work = work_;
    work.pass = pass;
    Chosen plan = choose(libraries, work);
    require(plan != nullptr,
            "no library has a kernel for {} on this device; try another --precision", work.text());
    return plan;
  }

  void plan_scratch(bool training) {
    const std::int64_t outputs = work_.w[0], rows = work_.y.count() / outputs;
    const std::int64_t weights = work_.w.count() * work_.layers;
    std::size_t vector = 0;
    if (work_.type != Type::f32) {
      const std::size_t size = size_of(work_.type);
      weights_bytes_ = Arena::aligned(static_cast<std::size_t>(weights) * size);
      vector = static_cast<std::size_t>(outputs) * size;
    }
    if (training && biases_) vector = std::max(vector, sum_rows_bytes(rows, outputs));
    vector_bytes_ = Arena::aligned(vector);
    std::size_t workspace = 0;
    // The passes run one after the other, so they share the largest workspace.
    for (const Chosen* plan : {&forward_, &backward_data_, &backward_weights_}) {
      if (*plan) workspace = std::max(workspace, (*plan)->workspace_bytes());
    }
    scratch_bytes_ = weights_bytes_ + vector_bytes_ + workspace;
  }

  /// `values` (fp32) in the plan's type: `values` themselves, or a converted copy at `place`.
  View narrowed(Stream& stream, View values, void* place) const {
    if (work_.type == Type::f32) return values;
    const View narrow{place, values.shape, work_.type};
    convert(stream, values, narrow);
    return narrow;
  }

  Convolution work_;
  bool biases_, adds_bias_, adds_relu_;  ///< forward_ leaves them to a kernel of its own
  Chosen forward_, backward_data_, backward_weights_;
  std::size_t weights_bytes_ = 0, vector_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace

std::unique_ptr<AffinePlan> make_convolution(const Libraries& libraries,
                                             const ConvolutionSpec& spec) {
  Convolution work;
  work.type = spec.input.type;
  work.x = spec.input.x;
  work.w = spec.weights();
  work.y = spec.output();
  work.stride = {spec.stride, spec.stride};
  work.pad = {spec.pad_height(), spec.pad};
  work.dilation = {spec.dilation, spec.dilation};
  return std::make_unique<CudaAffine>(libraries, work, spec.input, spec.relu, spec.biases);
}

std::unique_ptr<AffinePlan> make_dense(const Libraries& libraries, const DenseSpec& spec) {
  const std::int64_t batch = spec.input.x[0] / spec.layers, in = spec.input.x.row();
  Convolution work;
  work.type = spec.input.type;
  work.x = {batch, 1, 1, in};
  work.w = {spec.features, 1, 1, in};
  work.y = {batch, 1, 1, spec.features};
  work.layers = spec.layers;
  work.tf32 = spec.tf32;
  if (spec.layers > 1 && choose(libraries, work) == nullptr) {
    return std::make_unique<StackedDense>(make_dense(libraries, StackedDense::one_of(spec)),
                                          spec.layers);
  }
  return std::make_unique<CudaAffine>(libraries, work, spec.input, spec.relu, spec.biases);
}

}  // namespace lockstep::cuda
