// Google Benchmark over the layers of every model: forward and backward, fp32 and bf16, one thread,
// batch 64.
//
//   ./bench_layer --benchmark_filter=tutorial/conv2
//
// It prints FLOP/s for layers with multiply-adds, and bytes/s of activations for all layers. Bytes
// are x and y in the forward pass, and x, y, dx and dy in the backward pass. They are the least
// that the kernels must move.

#include <benchmark/benchmark.h>

#include <memory>
#include <string>
#include <vector>

#include "bench/google_options.h"
#include "bench/noise.h"
#include "net/model.h"
#include "src/base/check.h"

namespace {

using namespace lockstep;

/// One layer with the buffers of a call, filled with noise.
class LayerBench {
 public:
  LayerBench(const ModelEntry& entry, const std::string& name, Type type)
      : device_(make_cpu_device(1)), stream_(device_->stream()) {
    constexpr std::int64_t kBatch = 64;
    Shape shape = entry.sample.with_batch(kBatch);
    for (auto& [layer_name, layer] : entry.build(entry.sample, 10)) {
      Setup setup(*device_, type, true, true, layer_name);
      const Shape in = shape;
      shape = layer->setup(setup, in);
      if (layer_name != name) continue;
      layer_ = std::move(layer);
      x_ = noise_.tensor(in, type);
      y_ = noise_.tensor(shape, type);
      dy_ = noise_.tensor(shape, type);
      dx_ = noise_.tensor(in, type, 0);
      call_.stream = stream_.get();
      for (const Parameter& parameter : setup.parameters) {
        weights_.push_back(noise_.tensor(parameter.shape, Type::f32, 0.1f));
        gradients_.push_back(noise_.tensor(parameter.shape, Type::f32, 0));
      }
      call_.weights = weights_;
      call_.gradients = gradients_;
      call_.batch = &batch_;
      call_.saved = noise_.memory(setup.saved_bytes);
      call_.scratch = noise_.memory(setup.scratch_bytes);
      layer_->forward(call_, x_, y_);
      return;
    }
  }

  void forward() { layer_->forward(call_, x_, y_); }
  void backward() { layer_->backward(call_, x_, y_, dy_, dx_); }
  double flops() const { return 2 * layer_->multiply_adds(); }
  double bytes() const { return static_cast<double>(x_.bytes() + y_.bytes()); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  NoiseTensors noise_{*device_};
  std::unique_ptr<Layer> layer_;
  std::vector<View> weights_, gradients_;
  const std::int64_t position_ = 0;
  const TrainingBatch batch_{1, &position_};
  LayerCall call_;
  View x_, y_, dy_, dx_;
};

void run(benchmark::State& state, const ModelEntry& entry, const std::string& name, Type type,
         bool backward) {
  LayerBench bench(entry, name, type);
  for (auto _ : state) backward ? bench.backward() : bench.forward();
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  const double times = backward ? 2 : 1;
  if (bench.flops() > 0) state.counters["FLOP"] = benchmark::Counter(times * bench.flops(), rate);
  state.counters["bytes"] = benchmark::Counter(times * bench.bytes(), rate);
}

void add_layers() {
  for (const ModelEntry& entry : models()) {
    for (const auto& [name, layer] : entry.build(entry.sample, 10)) {
      for (const Type type : {Type::f32, Type::bf16}) {
        if (!make_cpu_device(1)->traits().computes(type)) continue;
        for (const bool backward : {false, true}) {
          const std::string title = fmt::format("{}/{}/{}/{}", entry.name, name, name_of(type),
                                                backward ? "backward" : "forward");
          benchmark::RegisterBenchmark(title.c_str(), [&entry, name = name, type,
                                                       backward](benchmark::State& state) {
            run(state, entry, name, type, backward);
          })->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::run_google_benchmarks(argc, argv, "bench_layer", add_layers);
}
