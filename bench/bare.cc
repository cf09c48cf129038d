#include "bench/bare.h"

#include <algorithm>
#include <functional>

#include "src/clock.h"
#include "src/random.h"

namespace lockstep {
namespace {

double median_seconds(int rounds, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds + 1; ++i) {
    const double start = now_seconds();
    call();
    if (i > 0) seconds.push_back(now_seconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[static_cast<std::size_t>(rounds / 2)];
}

/// One plan with its buffers.
class Bare {
 public:
  Bare(Device& device, std::unique_ptr<AffinePlan> plan, const PlanInput& input, Shape weights,
       Shape out)
      : device_(device), stream_(device.stream()), plan_(std::move(plan)), input_(input) {
    x_ = tensor(input.x, input.type);
    y_ = tensor(out, input.type);
    dy_ = tensor(out, input.type);
    dx_ = tensor(input.x, input.type);
    w_ = tensor(weights, Type::f32);
    dw_ = tensor(weights, Type::f32);
    b_ = tensor({weights[0]}, Type::f32);
    db_ = tensor({weights[0]}, Type::f32);
    scratch_ = device.allocate(plan_->scratch_bytes() + 1, Place::device);
  }

  double forward_seconds(int rounds) {
    return median_seconds(rounds,
                          [&] { plan_->forward(*stream_, x_, w_, b_, y_, scratch_.get()); });
  }
  double seconds(int rounds) {
    double total = forward_seconds(rounds);
    total += median_seconds(
        rounds, [&] { plan_->backward_weights(*stream_, x_, dy_, dw_, db_, scratch_.get()); });
    if (input_.input_gradient) {
      total += median_seconds(
          rounds, [&] { plan_->backward_data(*stream_, dy_, w_, dx_, scratch_.get()); });
    }
    return total;
  }

 private:
  View tensor(Shape shape, Type type) {
    memory_.push_back(
        device_.allocate(static_cast<std::size_t>(shape.count()) * size_of(type), Place::device));
    View view{memory_.back().get(), shape, type};
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(memory_.size()));
    dispatch(type, [&](auto* tag) {
      auto* to = view.as<std::remove_pointer_t<decltype(tag)>>();
      for (std::int64_t i = 0; i < view.count(); ++i) to[i] = random.uniform(-1, 1);
    });
    return view;
  }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AffinePlan> plan_;
  PlanInput input_;
  std::vector<Memory> memory_;
  Memory scratch_;
  View x_, y_, dy_, dx_, w_, dw_, b_, db_;
};

}  // namespace

BareTimes time_bare(Device& device, const Model& model, int rounds) {
  BareTimes times;
  const auto& layers = model.layers();
  for (const Parameter& parameter : model.layout().parameters) {
    if (parameter.shape.rank() < 2) continue;
    const auto index = static_cast<std::size_t>(parameter.layer);
    const PlanInput input{.x = index == 0 ? model.input() : layers[index - 1].output,
                          .type = model.type(),
                          .input_gradient = index > 0};
    const Shape out = layers[index].output;
    std::unique_ptr<AffinePlan> plan;
    if (parameter.shape.rank() == 4) {
      plan = device.convolution({.input = input,
                                 .filters = out[3],
                                 .kernel = parameter.shape[1],
                                 .pad = parameter.shape[1] / 2});
    } else {
      plan = device.dense({.input = input, .features = out[1]});
    }
    times.affine_seconds +=
        Bare(device, std::move(plan), input, parameter.shape, out).seconds(rounds);
  }
  const PlanInput input{
      .x = {1024, 2048}, .type = model.type(), .training = false, .input_gradient = false};
  Bare gemm(device, device.dense({.input = input, .features = 2048}), input, {2048, 2048},
            {1024, 2048});
  times.gemm_flops = 2.0 * 1024 * 2048 * 2048 / gemm.forward_seconds(std::max(rounds / 4, 3));
  return times;
}

}  // namespace lockstep
