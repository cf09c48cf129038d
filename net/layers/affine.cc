#include "net/layers/affine.h"

#include <cmath>

#include "net/layers/elementwise.h"

namespace lockstep {

void AffineLayer::finish_setup(Setup& setup, Shape weights,
                               const std::function<std::unique_ptr<AffinePlan>()>& plan,
                               Shape out) {
  try {
    plan_ = plan();
  } catch (const Error& error) {
    throw Error("layer " + setup.name + ": " + error.what(), error.exit_code());
  }
  const std::int64_t filters = weights[0];
  const std::int64_t area = weights.row() / weights.back();
  const auto ends = static_cast<float>(weights.row() + filters * area);
  Init begin{Init::Kind::truncated_normal, init_.weight_deviation, init_.dirac};
  if (init_.glorot) begin = {Init::Kind::uniform, std::sqrt(6 / ends), init_.dirac};
  if (init_.uniform > 0) begin = {Init::Kind::uniform, init_.uniform, init_.dirac};
  setup.parameter("weights", weights, begin, init_.l2, init_.frozen ? 0.0f : 1.0f);
  if (init_.biases) {
    setup.parameter("biases", {filters}, {Init::Kind::constant, init_.bias});
  } else {
    no_biases_ = {nullptr, {filters}, Type::f32};
    zeros_ = setup.save(no_biases_.bytes());
    unwanted_ = setup.save(no_biases_.bytes());
  }
  setup.scratch(plan_->scratch_bytes());
  multiply_adds_ = static_cast<double>(out.count()) * static_cast<double>(weights.row());
}

View AffineLayer::biases(const LayerCall& call, std::span<const View> of, std::size_t place) const {
  if (init_.biases) return of[1];
  View view = no_biases_;
  view.data = call.saved + place;
  return view;
}

void AffineLayer::forward(LayerCall& call, View x, View y) {
  plan_->forward(*call.stream, x, call.weights[0], biases(call, call.weights, zeros_), y,
                 call.scratch);
}

void AffineLayer::backward(LayerCall& call, View x, View y, View dy, View dx) {
  if (relu_) mask_relu(*call.stream, y, dy, dy);
  plan_->backward_weights(*call.stream, x, dy, call.gradients[0],
                          biases(call, call.gradients, unwanted_), call.scratch);
  if (dx) plan_->backward_data(*call.stream, dy, call.weights[0], dx, call.scratch);
}

}  // namespace lockstep
