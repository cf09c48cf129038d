// A device that passes each call on to another: by default the CPU with one thread.
#pragma once

#include <memory>
#include <utility>

#include "src/device/device.h"

namespace lockstep {

class WrappedDevice : public Device {
 public:
  explicit WrappedDevice(std::shared_ptr<Device> device = make_cpu_device(1))
      : device_(std::move(device)) {
    traits_ = device_->traits();
    pin_ = [this](std::byte* data, std::size_t bytes) { return device_->pin(data, bytes); };
  }

  std::string arithmetic(Type type) const override { return device_->arithmetic(type); }
  std::unique_ptr<Stream> stream(Priority priority) override { return device_->stream(priority); }
  std::unique_ptr<Event> event() override { return device_->event(); }
  Memory allocate(std::size_t bytes, Place place) override {
    return device_->allocate(bytes, place);
  }
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    device_->copy(stream, to, from, bytes);
  }
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& body) override {
    return device_->capture(stream, body);
  }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    return device_->convolution(spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override { return device_->dense(spec); }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return device_->response_norm(spec);
  }
  std::unique_ptr<ProductPlan> product(const ProductSpec& spec) override {
    return device_->product(spec);
  }

 private:
  std::shared_ptr<Device> device_;
};

}  // namespace lockstep
