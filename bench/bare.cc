#include "bench/bare.h"

#include <algorithm>
#include <functional>

#include "bench/noise.h"
#include "src/base/clock.h"

namespace lockstep {
namespace {

double median_seconds(int rounds, Record& record, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds + 1; ++i) {
    const double start = now_seconds();
    call();
    if (i > 0) seconds.push_back(now_seconds() - start);
    record.progress();
  }
  std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
  return seconds[rounds / 2];
}

/// A device that notes the convolutions and dense layers that are asked of it.
class NotingDevice : public Device {
 public:
  explicit NotingDevice(Device& device) : device_(device) { traits_ = device.traits(); }

  std::string arithmetic() const override { return device_.arithmetic(); }
  std::unique_ptr<Stream> stream(Priority priority) override { return device_.stream(priority); }
  std::unique_ptr<Event> event() override { return device_.event(); }
  Memory allocate(std::size_t bytes, Place place) override {
    return device_.allocate(bytes, place);
  }
  void copy(Stream& stream, void* to, const void* from, std::size_t bytes) override {
    device_.copy(stream, to, from, bytes);
  }
  std::unique_ptr<Graph> capture(Stream& stream, const std::function<void()>& body) override {
    return device_.capture(stream, body);
  }
  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    convolutions.push_back(spec);
    return device_.convolution(spec);
  }
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    dense_layers.push_back(spec);
    return device_.dense(spec);
  }
  std::unique_ptr<ResponseNormPlan> response_norm(const ResponseNormSpec& spec) override {
    return device_.response_norm(spec);
  }

  std::vector<ConvolutionSpec> convolutions;
  std::vector<DenseSpec> dense_layers;

 private:
  Device& device_;
};

/// One plan with its buffers.
class Bare {
 public:
  Bare(Device& device, Record& record, const ConvolutionSpec& spec)
      : Bare(device, record, device.convolution(spec), spec.input, spec.weights(), spec.output()) {}
  Bare(Device& device, Record& record, const DenseSpec& spec)
      : Bare(device, record, device.dense(spec), spec.input, {spec.features, spec.input.x.row()},
             {spec.input.x[0], spec.features}) {}

  double forward_seconds(int rounds) {
    return median_seconds(rounds, record_,
                          [&] { plan_->forward(*stream_, x_, w_, b_, y_, scratch_); });
  }
  double seconds(int rounds) {
    double total = forward_seconds(rounds);
    total += median_seconds(
        rounds, record_, [&] { plan_->backward_weights(*stream_, x_, dy_, dw_, db_, scratch_); });
    if (input_.input_gradient) {
      total += median_seconds(rounds, record_,
                              [&] { plan_->backward_data(*stream_, dy_, w_, dx_, scratch_); });
    }
    return total;
  }

 private:
  Bare(Device& device, Record& record, std::unique_ptr<AffinePlan> plan, const PlanInput& input,
       Shape weights, Shape out)
      : record_(record),
        noise_(device),
        stream_(device.stream()),
        plan_(std::move(plan)),
        input_(input) {
    x_ = noise_.tensor(input.x, input.type);
    y_ = noise_.tensor(out, input.type);
    dy_ = noise_.tensor(out, input.type);
    dx_ = noise_.tensor(input.x, input.type);
    w_ = noise_.tensor(weights, Type::f32);
    dw_ = noise_.tensor(weights, Type::f32);
    b_ = noise_.tensor({weights[0]}, Type::f32);
    db_ = noise_.tensor({weights[0]}, Type::f32);
    scratch_ = noise_.memory(plan_->scratch_bytes());
  }

  Record& record_;
  NoiseTensors noise_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<AffinePlan> plan_;
  PlanInput input_;
  std::byte* scratch_ = nullptr;
  View x_, y_, dy_, dx_, w_, dw_, b_, db_;
};

}  // namespace

BareTimes time_bare(Device& device, const ModelEntry& entry, Shape sample, int classes,
                    std::int64_t batch, Type type, int rounds, Record& record) {
  NotingDevice noted(device);
  Model(noted, entry, sample, classes, batch, type, /*training=*/true);
  BareTimes times;
  for (const ConvolutionSpec& spec : noted.convolutions)
    times.affine_seconds += Bare(device, record, spec).seconds(rounds);
  for (const DenseSpec& spec : noted.dense_layers)
    times.affine_seconds += Bare(device, record, spec).seconds(rounds);
  Bare gemm(
      device, record,
      DenseSpec{
          .input = {.x = {1024, 2048}, .type = type, .training = false, .input_gradient = false},
          .features = 2048});
  times.gemm_flops = 2.0 * 1024 * 2048 * 2048 / gemm.forward_seconds(std::max(rounds / 4, 3));
  return times;
}

}  // namespace lockstep
