// Google Benchmark over the layers of every model, and over its convolutions by every algorithm of
// the CPU: one thread, batch 64.
//
//   ./bench_layer --benchmark_filter=tutorial/conv2
//   ./bench_layer --benchmark_filter='8x8, 64.*/fp32'
//
// FLOP/s of a convolution count the operations of direct sums for every algorithm, so that the
// fastest algorithm has the most. An algorithm that has no kernel of its own for a shape is left
// out. The label names the kernel, and marks the choice of `auto`.
//
// Layers have FLOP/s if they have multiply-adds, and bytes/s of activations. Bytes are x and y in
// the forward pass, and x, y, dx and dy in the backward pass. They are the least that the kernels
// must move.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/affine_bench.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/device/cpu/convolution.h"

namespace lockstep {
namespace {

/// One layer with the buffers of a call, filled with noise.
class LayerBench {
 public:
  LayerBench(const ModelEntry& entry, const std::string& name, Type type)
      : device_(make_cpu_device(1)), stream_(device_->stream()) {
    constexpr std::int64_t kBatch = 64;
    Shape shape = entry.sample.with_batch(kBatch);
    bool learns = false;  // no training needs the gradient of the model's input
    for (auto& [layer_name, layer] : entry.build(entry.sample, 10)) {
      Setup setup(*device_, type, true, learns, layer_name);
      const Shape in = shape;
      shape = layer->setup(setup, in);
      learns |= !setup.parameters.empty();
      if (layer_name != name) continue;
      layer_ = std::move(layer);
      x_ = noise_.tensor(in, type);
      y_ = noise_.tensor(shape, type);
      dy_ = noise_.tensor(shape, type);
      if (setup.input_gradient) dx_ = noise_.tensor(in, type, 0);
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
  void backward() {
    if (dx_ || !weights_.empty()) layer_->backward(call_, x_, y_, dy_, dx_);
  }
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

void run_layer(benchmark::State& state, const ModelEntry& entry, const std::string& name, Type type,
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
            run_layer(state, entry, name, type, backward);
          })->Unit(benchmark::kMicrosecond);
        }
      }
    }
  }
}

std::string title(const ConvolutionSpec& spec) {
  const Shape& x = spec.input.x;
  std::string text = fmt::format("{}x{}, {} -> {}, {}x{}", x[1], x[2], x[3], spec.filters,
                                 spec.kernel_height(), spec.kernel);
  if (spec.stride > 1) text += fmt::format(", stride {}", spec.stride);
  if (spec.pad == 0 && spec.kernel > 1) text += ", valid";
  return text + "/" + std::string(name_of(spec.input.type));
}

enum class Pass { forward, data, weights };
constexpr std::string_view name_of_pass(Pass pass) {
  return pass == Pass::forward ? "forward" : pass == Pass::data ? "data" : "weights";
}

std::string implementation(const ConvolutionSpec& spec, std::string_view algorithm) {
  return make_cpu_device(1, algorithm)->convolution(spec)->implementation();
}

void add_convolution(const std::string& shape, const ConvolutionSpec& spec) {
  const std::string chosen = implementation(spec, "auto");
  std::vector<std::string> seen;
  for (const ConvolutionEntry& entry : convolutions().subspan(1)) {
    const std::string name = implementation(spec, entry.name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    for (const Pass pass : {Pass::forward, Pass::data, Pass::weights}) {
      if (pass == Pass::data && !spec.input.input_gradient) continue;
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}/{}", shape, entry.name, name_of_pass(pass)).c_str(),
          [=, &entry](benchmark::State& state) {
            const auto device = make_cpu_device(1, entry.name);
            AffineBench bench(*device, spec);
            const auto run = pass == Pass::forward ? &AffineBench::forward
                             : pass == Pass::data  ? &AffineBench::backward_data
                                                   : &AffineBench::backward_weights;
            (bench.*run)();  // touches the memory
            for (auto _ : state) (bench.*run)();
            const double flops = 2.0 * static_cast<double>(spec.output().count()) *
                                 static_cast<double>(spec.weights().row());
            state.counters["FLOP"] =
                benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
            state.SetLabel(name == chosen ? name + " (auto)" : name);
          })
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

void add_convolutions() {
  std::map<std::string, ConvolutionSpec> specs;
  for (const ModelEntry& entry : models()) {
    for (const Type type : {Type::f32, Type::bf16}) {
      RecordingDevice device;
      if (!device.traits().computes(type)) continue;
      const std::int64_t batch = entry.sample[1] > 64 ? 8 : 64;  // photos are larger
      Model(device, entry, entry.sample, 10, batch, type, /*training=*/true);
      for (const ConvolutionSpec& spec : device.convolutions) specs.try_emplace(title(spec), spec);
    }
  }
  for (const auto& [shape, spec] : specs) add_convolution(shape, spec);
}

/// Throws the usage error for values with which Google Benchmark would end the process itself.
void check_google_option(std::string_view option) {
  const auto one_of = [&](std::string_view name, std::initializer_list<std::string_view> values) {
    if (!option.starts_with(name)) return;
    const std::string_view value = option.substr(name.size());
    if (std::find(values.begin(), values.end(), value) == values.end())
      fail_usage("{} is not supported. Pass one of {}.", option, fmt::join(values, ", "));
  };
  one_of("--benchmark_format=", {"console", "json", "csv"});
  one_of("--benchmark_out_format=", {"console", "json", "csv"});
  one_of("--benchmark_time_unit=", {"ns", "us", "ms", "s"});
}

/// A wrong option ends the program with exit code 2 and one line, as in all other programs.
int run_benchmarks(int argc, char** argv) {
  constexpr const char* kProgram = "bench_layer";
  try {
    for (int i = 1; i < argc; ++i) {
      static char json[] = "--benchmark_format=json";
      if (std::string_view(argv[i]) == "--json") argv[i] = json;
      if (std::string_view(argv[i]) == "--help") {
        fmt::print("Usage: {} [--json] [options of Google Benchmark]\n\n", kProgram);
        std::fflush(stdout);
      }
      check_google_option(argv[i]);
    }
    benchmark::Initialize(&argc, argv);
    if (argc > 1) fail_usage("Google Benchmark has no option {}. Pass --help for a list.", argv[1]);
    add_layers();
    add_convolutions();
    return benchmark::RunSpecifiedBenchmarks() > 0 ? kExitSuccess : kExitUsage;
  } catch (const Error& error) {
    print_error(fmt::format("{}: {}\n", kProgram, error.what()));
    return error.exit_code();
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) { return lockstep::run_benchmarks(argc, argv); }
