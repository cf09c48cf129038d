// The convolutions and dense layers of a model one by one, on noise, for benchmarks.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "net/model.h"
#include "src/base/random.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {

/// A device that records the convolutions and dense layers that are made on it.
class RecordingDevice : public WrappedDevice {
 public:
  using WrappedDevice::WrappedDevice;
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    convolutions.push_back(spec);
    return WrappedDevice::convolution(spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    dense_layers.push_back(spec);
    return WrappedDevice::dense(spec);
  }

  std::vector<ConvolutionSpec> convolutions;
  std::vector<DenseSpec> dense_layers;
};

/// A product of 1024 x 2048 x 2048, which is near the most that the device can do.
inline DenseSpec large_product(Type type) {
  return {.input = {.x = {1024, 2048}, .type = type, .training = false, .input_gradient = false},
          .features = 2048};
}
inline constexpr double kLargeProductFlops = 2.0 * 1024 * 2048 * 2048;

/// One plan with its buffers, filled with noise.
class AffineBench {
 public:
  AffineBench(Device& device, const ConvolutionSpec& spec)
      : AffineBench(device, device.convolution(spec), spec.input, spec.weights(), spec.output()) {}
  AffineBench(Device& device, const DenseSpec& spec)
      : AffineBench(device, device.dense(spec), spec.input, {spec.features, spec.input.x.row()},
                    {spec.input.x[0], spec.features}) {}

  void forward() { plan_->forward(*stream_, x_, w_, b_, y_, scratch_); }
  void backward_weights() { plan_->backward_weights(*stream_, x_, dy_, dw_, db_, scratch_); }
  void backward_data() { plan_->backward_data(*stream_, dy_, w_, dx_, scratch_); }
  /// Waits for the passes that were enqueued.
  void synchronize() { stream_->synchronize(); }

 private:
  AffineBench(Device& device, std::unique_ptr<AffinePlan> plan, const PlanInput& input,
              Shape weights, Shape out)
      : device_(device),
        stream_(device.stream()),
        plan_(std::move(plan)),
        x_(tensor(input.x, input.type)),
        y_(tensor(out, input.type)),
        dy_(tensor(out, input.type)),
        dx_(tensor(input.x, input.type)),
        w_(tensor(weights, Type::f32)),
        dw_(tensor(weights, Type::f32)),
        b_(tensor({weights[0]}, Type::f32)),
        db_(tensor({weights[0]}, Type::f32)),
        scratch_(memory(plan_->scratch_bytes())) {}

  /// Uniform from -1 to 1, another sequence for each tensor.
  View tensor(Shape shape, Type type) {
    const View view{memory(shape.count() * size_of(type)), shape, type};
    const Memory host = device_.allocate(view.bytes(), Place::host);
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(memory_.size()));
    dispatch(type, [&]<class T>(T*) {
      auto* const to = reinterpret_cast<T*>(host.get());
      for (std::int64_t i = 0; i < view.count(); ++i) to[i] = random.uniform(-1, 1);
    });
    device_.copy(*stream_, view.data, host.get(), view.bytes());
    stream_->synchronize();
    return view;
  }
  std::byte* memory(std::size_t bytes) {
    memory_.push_back(device_.allocate(bytes, Place::device));
    return memory_.back().get();
  }

  Device& device_;
  std::vector<Memory> memory_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AffinePlan> plan_;
  View x_, y_, dy_, dx_, w_, dw_, b_, db_;
  std::byte* scratch_;
};

}  // namespace lockstep
