#include "net/layers/linear.h"

#include "src/each.h"

namespace lockstep {
namespace {

/// dy = 0 wherever the ReLU let nothing through.
void mask(Stream& stream, View y, View dy) {
  dispatch(y.type, [&](auto* tag) {
    using T = std::remove_pointer_t<decltype(tag)>;
    each(stream, y.count(), [y = y.as<T>(), dy = dy.as<T>()](std::int64_t i) {
      dy[i] = static_cast<float>(y[i]) > 0 ? static_cast<float>(dy[i]) : 0.0f;
    });
  });
}

}  // namespace

void LinearLayer::finish_setup(Setup& setup, Shape weights, std::unique_ptr<LinearPlan> plan,
                               Shape out) {
  const std::int64_t filters = weights[0];
  setup.parameter("weights", weights, {Init::Kind::truncated_normal, init_.weight_deviation},
                  init_.l2);
  setup.parameter("biases", {filters}, {Init::Kind::constant, init_.bias});
  setup.scratch(plan->scratch_bytes());
  plan_ = std::move(plan);
  multiply_adds_ = static_cast<double>(out.count()) * static_cast<double>(weights.row());
}

void LinearLayer::forward(Step& step, View x, View y) {
  plan_->forward(*step.stream, x, step.weights[0], step.weights[1], y, step.scratch);
}

void LinearLayer::backward(Step& step, View x, View y, View dy, View dx) {
  if (relu_) mask(*step.stream, y, dy);
  plan_->backward_weights(*step.stream, x, dy, step.gradients[0], step.gradients[1], step.scratch);
  if (dx) plan_->backward_data(*step.stream, dy, step.weights[0], dx, step.scratch);
}

}  // namespace lockstep
