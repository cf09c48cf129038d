// Convolutions and dense layers differ only in the descriptions of their primitives.
//
// Every call reorders the user's weights (fp32, out-height-width-in) into scratch, in the layout
// and type of the chosen kernel: 100,000 weights against 10 million multiply-adds per image. So no
// copy of the weights can become stale.

#include <algorithm>
#include <unordered_map>

#include "src/base/round_up.h"
#include "src/device/cpu/library.h"
#include "src/device/cpu/onednn/onednn.h"

namespace lockstep {
namespace {

using dnnl::memory;

constexpr std::size_t kAlignment = 64;

/// One primitive. Its scratch contains the weights (or their gradient) in the kernel's layout, then
/// the scratchpad. Empty until it is set.
struct Call {
  dnnl::primitive primitive;
  memory::desc weights, scratchpad;
  bool gradient = false;   ///< the weights are a result
  bool reordered = false;  ///< the user's weights have another layout
  dnnl::reorder reorder;

  std::size_t weights_bytes() const {
    return reordered ? round_up(weights.get_size(), kAlignment) : 0;
  }
  std::size_t scratch_bytes() const {
    return weights_bytes() + round_up(scratchpad.get_size(), kAlignment);
  }
};

/// The tensors of one layer.
struct Descriptors {
  memory::desc x, y, w, b;  ///< of the caller; b is empty without biases
  memory::desc kernel_w;    ///< weights in the type, and perhaps the layout, of the kernel's choice
  memory::desc kernel_dw;   ///< the same for the gradient, always fp32
};

class OnednnAffine : public AffinePlan {
 public:
  /// `forward`: what describes the forward pass.
  template <class Description>
  OnednnAffine(Descriptors descriptors, const Description& forward)
      : md_(std::move(descriptors)), implementation_(forward.impl_info_str()) {
    set(forward_, forward, forward.weights_desc());
  }
  template <class Description>
  void set_backward_data(const Description& description) {
    set(backward_data_, description, description.weights_desc());
  }
  template <class Description>
  void set_backward_weights(const Description& description) {
    backward_weights_.gradient = true;
    set(backward_weights_, description, description.diff_weights_desc());
  }

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    stream.enqueue([=, this] {
      Arguments arguments{{DNNL_ARG_SRC, of(md_.x, x)}, {DNNL_ARG_DST, of(md_.y, y)}};
      if (b) arguments.insert({DNNL_ARG_BIAS, of(md_.b, b)});
      execute(forward_, w, scratch, std::move(arguments));
    });
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    stream.enqueue([=, this] {
      execute(backward_data_, w, scratch,
              {{DNNL_ARG_DIFF_DST, of(md_.y, dy)}, {DNNL_ARG_DIFF_SRC, of(md_.x, dx)}});
    });
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.enqueue([=, this] {
      Arguments arguments{{DNNL_ARG_SRC, of(md_.x, x)}, {DNNL_ARG_DIFF_DST, of(md_.y, dy)}};
      if (db) arguments.insert({DNNL_ARG_DIFF_BIAS, of(md_.b, db)});
      execute(backward_weights_, dw, scratch, std::move(arguments));
    });
  }

  std::size_t scratch_bytes() const override {
    return std::max({forward_.scratch_bytes(), backward_data_.scratch_bytes(),
                     backward_weights_.scratch_bytes()});
  }
  std::string implementation() const override { return "oneDNN " + implementation_; }

 private:
  template <class Description>
  void set(Call& call, const Description& description, const memory::desc& weights) {
    call.primitive = dnnl::primitive(description);
    call.weights = weights;
    call.scratchpad = description.scratchpad_desc();
    call.reordered = weights != md_.w;
    if (!call.reordered) return;
    // Weights are reordered before the primitive, and a gradient after it.
    const auto& from = call.gradient ? weights : md_.w;
    const auto& to = call.gradient ? md_.w : weights;
    call.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, from, engine_, to));
  }

  memory of(const memory::desc& md, const View& view) { return {md, engine_, view.data}; }

  using Arguments = std::unordered_map<int, memory>;

  void execute(const Call& call, View weights, void* scratch, Arguments arguments) {
    expect(static_cast<bool>(call.primitive), "the plan was not made for this call");
    memory user_weights = of(md_.w, weights);
    memory kernel = call.reordered ? memory(call.weights, engine_, scratch) : user_weights;
    if (call.reordered && !call.gradient) call.reorder.execute(stream_, user_weights, kernel);
    arguments.insert({call.gradient ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, kernel});
    // The scratchpad is the caller's memory, so the layers of a model can share one.
    void* pad = static_cast<std::byte*>(scratch) + call.weights_bytes();
    arguments.insert({DNNL_ARG_SCRATCHPAD, memory(call.scratchpad, engine_, pad)});
    call.primitive.execute(stream_, arguments);
    if (call.reordered && call.gradient) call.reorder.execute(stream_, kernel, user_weights);
    stream_.wait();
  }

  const dnnl::engine& engine_ = onednn::engine();
  dnnl::stream stream_{engine_};
  Descriptors md_;
  std::string implementation_;
  Call forward_, backward_data_, backward_weights_;
};

/// oneDNN reads an empty description as "no biases".
memory::desc biases(bool present, std::int64_t count) {
  if (!present) return {};
  return {{count}, memory::data_type::f32, memory::format_tag::x};
}

dnnl::prop_kind kind_of(const PlanInput& input) {
  return input.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

}  // namespace

std::unique_ptr<AffinePlan> library::convolution(const ConvolutionSpec& spec) {
  using tag = memory::format_tag;
  const auto type = onednn::data_type(spec.input.type);
  const auto f32 = memory::data_type::f32;
  const Shape x = spec.input.x, y = spec.output();
  const Shape w = spec.weights();
  // oneDNN names extents in the order N, C, H, W, and a tag tells their order in memory.
  const memory::dims w_dims = spec.groups > 1
                                  ? memory::dims{spec.groups, w[0] / spec.groups, w[3], w[1], w[2]}
                                  : memory::dims{w[0], w[3], w[1], w[2]};
  const Descriptors md{.x = {{x[0], x[3], x[1], x[2]}, type, tag::nhwc},
                       .y = {{y[0], y[3], y[1], y[2]}, type, tag::nhwc},
                       .w = {w_dims, f32, spec.groups > 1 ? tag::gohwi : tag::ohwi},
                       .b = biases(spec.biases, spec.filters),
                       .kernel_w = {w_dims, type, tag::any},
                       .kernel_dw = {w_dims, f32, tag::any}};
  // oneDNN's dilation counts the elements between two taps.
  const memory::dims strides{spec.stride, spec.stride}, pad{spec.pad_height(), spec.pad},
      skipped{spec.dilation - 1, spec.dilation - 1};
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto attr = onednn::attributes(false);

  // The backward passes take the forward description as a hint for their kernels. ReLU is fused
  // only into the forward pass: dx and dw are those of the linear part (device.h).
  const auto forward = onednn::describe<dnnl::convolution_forward>(
      onednn::attributes(spec.relu), kind_of(spec.input), algorithm, md.x, md.kernel_w, md.b, md.y,
      strides, skipped, pad, pad);
  auto plan = std::make_unique<OnednnAffine>(md, forward);
  if (spec.input.training && spec.input.input_gradient) {
    plan->set_backward_data(onednn::describe_backward<dnnl::convolution_backward_data>(
        attr, forward, algorithm, md.x, md.kernel_w, md.y, strides, skipped, pad, pad));
  }
  if (spec.input.training) {
    plan->set_backward_weights(onednn::describe_backward<dnnl::convolution_backward_weights>(
        attr, forward, algorithm, md.x, md.kernel_dw, md.b, md.y, strides, skipped, pad, pad));
  }
  return plan;
}

std::unique_ptr<AffinePlan> library::dense(const DenseSpec& spec) {
  using tag = memory::format_tag;
  const auto type = onednn::data_type(spec.input.type);
  const auto f32 = memory::data_type::f32;
  const std::int64_t batch = spec.input.x[0], in = spec.input.x.row();
  const memory::dims w_dims{spec.features, in};
  // The user's layout: to reorder a million weights three times per step costs more than a better
  // kernel gains (2304 x 384, batch 64: 3.3 ms instead of 4.3 ms).
  const Descriptors md{.x = {{batch, in}, type, tag::ab},
                       .y = {{batch, spec.features}, type, tag::ab},
                       .w = {w_dims, f32, tag::ab},
                       .b = biases(spec.biases, spec.features),
                       .kernel_w = {w_dims, type, tag::ab},
                       .kernel_dw = {w_dims, f32, tag::ab}};
  const auto attr = onednn::attributes(false);

  const auto forward = onednn::describe<dnnl::inner_product_forward>(
      onednn::attributes(spec.relu), kind_of(spec.input), md.x, md.kernel_w, md.b, md.y);
  auto plan = std::make_unique<OnednnAffine>(md, forward);
  if (spec.input.training && spec.input.input_gradient) {
    plan->set_backward_data(onednn::describe_backward<dnnl::inner_product_backward_data>(
        attr, forward, md.x, md.kernel_w, md.y));
  }
  if (spec.input.training) {
    plan->set_backward_weights(onednn::describe_backward<dnnl::inner_product_backward_weights>(
        attr, forward, md.x, md.kernel_dw, md.b, md.y));
  }
  return plan;
}

}  // namespace lockstep
