// One body for both: they differ only in how their primitives are described.
//
// The user's weights (fp32, filters out-height-width-in) are reordered into
// the layout and type that the chosen kernel wants, into scratch, at every call: 100,000 weights
// against 10 million multiply-adds an image, and nothing to keep in step.

#include "src/device/cpu/affine.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "src/base/round_up.h"
#include "src/device/cpu/onednn.h"

namespace lockstep {
namespace {

using dnnl::memory;

constexpr std::size_t kAlignment = 64;

/// One primitive with the place of its weights in scratch: [weights as the kernel wants
/// them][scratchpad].
struct Call {
  dnnl::primitive primitive;
  memory::desc weights, scratchpad;
  /// Between the user's weights and the kernel's; the direction is the owner's affair.
  dnnl::reorder reorder;
  bool reordered = false;

  std::size_t weights_bytes() const {
    return reordered ? round_up(weights.get_size(), kAlignment) : 0;
  }
  std::size_t scratch_bytes() const {
    return weights_bytes() + round_up(scratchpad.get_size(), kAlignment);
  }
};

/// The shapes of one layer as oneDNN counts them.
struct Descriptors {
  memory::desc x, y, w, b;  ///< what callers hand over
  memory::desc kernel_w;    ///< weights in the type, and perhaps the layout, of the kernel's choice
  memory::desc kernel_dw;   ///< the same for the gradient, always fp32
};

class OnednnAffine : public AffinePlan {
 public:
  OnednnAffine(const dnnl::engine& engine, Descriptors descriptors)
      : engine_(engine), stream_(engine), md_(std::move(descriptors)) {}

  template <class Description>
  void set_forward(const Description& description) {
    implementation_ = description.impl_info_str();
    forward_ = make_call(description, description.weights_desc(), true);
  }
  template <class Description>
  void set_backward_data(const Description& description) {
    backward_data_ = make_call(description, description.weights_desc(), true);
  }
  template <class Description>
  void set_backward_weights(const Description& description) {
    backward_weights_ = make_call(description, description.diff_weights_desc(), false);
  }

  void forward(Stream& stream, View x, View w, View b, View y, void* scratch) override {
    stream.give([=, this] {
      execute(forward_.value(), w, true, scratch,
              {{DNNL_ARG_SRC, of(md_.x, x)},
               {DNNL_ARG_BIAS, of(md_.b, b)},
               {DNNL_ARG_DST, of(md_.y, y)}},
              DNNL_ARG_WEIGHTS);
    });
  }
  void backward_data(Stream& stream, View dy, View w, View dx, void* scratch) override {
    stream.give([=, this] {
      execute(backward_data_.value(), w, true, scratch,
              {{DNNL_ARG_DIFF_DST, of(md_.y, dy)}, {DNNL_ARG_DIFF_SRC, of(md_.x, dx)}},
              DNNL_ARG_WEIGHTS);
    });
  }
  void backward_weights(Stream& stream, View x, View dy, View dw, View db, void* scratch) override {
    stream.give([=, this] {
      execute(backward_weights_.value(), dw, false, scratch,
              {{DNNL_ARG_SRC, of(md_.x, x)},
               {DNNL_ARG_DIFF_DST, of(md_.y, dy)},
               {DNNL_ARG_DIFF_BIAS, of(md_.b, db)}},
              DNNL_ARG_DIFF_WEIGHTS);
    });
  }

  std::size_t scratch_bytes() const override {
    std::size_t bytes = 0;
    for (const auto* call : {&forward_, &backward_data_, &backward_weights_}) {
      if (*call) bytes = std::max(bytes, (*call)->scratch_bytes());
    }
    return bytes;
  }
  std::string implementation() const override { return "oneDNN " + implementation_; }

 private:
  template <class Description>
  Call make_call(const Description& description, memory::desc weights, bool weights_go_in) {
    Call call{dnnl::primitive(description), weights, description.scratchpad_desc(), {}, false};
    if (weights != md_.w) {
      const auto& from = weights_go_in ? md_.w : weights;
      const auto& to = weights_go_in ? weights : md_.w;
      call.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine_, from, engine_, to));
      call.reordered = true;
    }
    return call;
  }

  memory of(const memory::desc& md, const View& view) { return {md, engine_, view.data}; }

  void execute(Call& call, View weights, bool weights_go_in, void* scratch,
               std::unordered_map<int, memory> arguments, int weights_argument) {
    memory user_weights = of(md_.w, weights);
    memory kernel = call.reordered ? memory(call.weights, engine_, scratch) : user_weights;
    if (call.reordered && weights_go_in) call.reorder.execute(stream_, user_weights, kernel);
    arguments.insert({weights_argument, kernel});
    void* pad = static_cast<std::byte*>(scratch) + call.weights_bytes();
    arguments.insert({DNNL_ARG_SCRATCHPAD, memory(call.scratchpad, engine_, pad)});
    call.primitive.execute(stream_, arguments);
    if (call.reordered && !weights_go_in) call.reorder.execute(stream_, kernel, user_weights);
    stream_.wait();
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  Descriptors md_;
  std::string implementation_;
  std::optional<Call> forward_, backward_data_, backward_weights_;
};

dnnl::prop_kind kind_of(const PlanInput& input) {
  return input.training ? dnnl::prop_kind::forward_training : dnnl::prop_kind::forward_inference;
}

}  // namespace

std::unique_ptr<AffinePlan> make_onednn_convolution(const dnnl::engine& engine,
                                                    const ConvolutionSpec& spec) {
  using tag = memory::format_tag;
  const auto type = onednn::data_type(spec.input.type);
  const auto f32 = memory::data_type::f32;
  const Shape x = spec.input.x, y = spec.output();
  const Shape w = spec.weights();
  const memory::dims w_dims = spec.groups > 1
                                  ? memory::dims{spec.groups, w[0] / spec.groups, w[3], w[1], w[2]}
                                  : memory::dims{w[0], w[3], w[1], w[2]};
  const Descriptors md{.x = {{x[0], x[3], x[1], x[2]}, type, tag::nhwc},
                       .y = {{y[0], y[3], y[1], y[2]}, type, tag::nhwc},
                       .w = {w_dims, f32, spec.groups > 1 ? tag::gohwi : tag::ohwi},
                       .b = {{spec.filters}, f32, tag::x},
                       .kernel_w = {w_dims, type, tag::any},
                       .kernel_dw = {w_dims, f32, tag::any}};
  // oneDNN counts the elements that are left out between two taps.
  const memory::dims strides{spec.stride, spec.stride}, pad{spec.pad_height(), spec.pad},
      skipped{spec.dilation - 1, spec.dilation - 1};
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto attr = onednn::attributes(false);

  auto plan = std::make_unique<OnednnAffine>(engine, md);
  const auto forward = onednn::describe<dnnl::convolution_forward>(
      engine, onednn::attributes(spec.relu), kind_of(spec.input), algorithm, md.x, md.kernel_w,
      md.b, md.y, strides, skipped, pad, pad);
  plan->set_forward(forward);
  if (spec.input.training && spec.input.input_gradient) {
    plan->set_backward_data(onednn::describe_backward<dnnl::convolution_backward_data>(
        engine, attr, forward, algorithm, md.x, md.kernel_w, md.y, strides, skipped, pad, pad));
  }
  if (spec.input.training) {
    plan->set_backward_weights(onednn::describe_backward<dnnl::convolution_backward_weights>(
        engine, attr, forward, algorithm, md.x, md.kernel_dw, md.b, md.y, strides, skipped, pad,
        pad));
  }
  return plan;
}

std::unique_ptr<AffinePlan> make_onednn_dense(const dnnl::engine& engine, const DenseSpec& spec) {
  using tag = memory::format_tag;
  const auto type = onednn::data_type(spec.input.type);
  const auto f32 = memory::data_type::f32;
  const std::int64_t batch = spec.input.x[0], in = spec.input.x.row();
  const memory::dims w_dims{spec.features, in};
  // The user's layout, not one of the kernel's choice: reordering a million weights three times a
  // step costs more than the better kernel gains (2304 x 384, batch 64: 3.3 against 4.3 ms).
  const Descriptors md{.x = {{batch, in}, type, tag::ab},
                       .y = {{batch, spec.features}, type, tag::ab},
                       .w = {w_dims, f32, tag::ab},
                       .b = {{spec.features}, f32, tag::x},
                       .kernel_w = {w_dims, type, tag::ab},
                       .kernel_dw = {w_dims, f32, tag::ab}};
  const auto attr = onednn::attributes(false);

  auto plan = std::make_unique<OnednnAffine>(engine, md);
  const auto forward = onednn::describe<dnnl::inner_product_forward>(
      engine, onednn::attributes(spec.relu), kind_of(spec.input), md.x, md.kernel_w, md.b, md.y);
  plan->set_forward(forward);
  if (spec.input.training && spec.input.input_gradient) {
    plan->set_backward_data(onednn::describe_backward<dnnl::inner_product_backward_data>(
        engine, attr, forward, md.x, md.kernel_w, md.y));
  }
  if (spec.input.training) {
    plan->set_backward_weights(onednn::describe_backward<dnnl::inner_product_backward_weights>(
        engine, attr, forward, md.x, md.kernel_dw, md.b, md.y));
  }
  return plan;
}

}  // namespace lockstep
