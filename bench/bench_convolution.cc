// Google Benchmark over the convolutions of every model by every algorithm of the CPU's menu: one
// thread, batch 64.
//
//   ./bench_convolution --benchmark_filter='8x8, 64.*/fp32'
//
// FLOP/s are those of the direct sums, whatever an algorithm saves of them, so that the faster one
// has more. An algorithm that has nothing for a shape, or nothing but what another one has, is left
// out; the label says what runs, and whether `auto` takes it.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bench/google_options.h"
#include "bench/noise.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/device/cpu/convolution.h"
#include "tests/support/wrapped_device.h"

namespace {

using namespace lockstep;

/// The CPU, which also notes what it is asked to convolve.
class Recorder : public WrappedDevice {
 public:
  std::vector<ConvolutionSpec> specs;

  std::unique_ptr<AffinePlan> convolution(const ConvolutionSpec& spec) override {
    specs.push_back(spec);
    return WrappedDevice::convolution(spec);
  }
};

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

/// One convolution by one algorithm, with all that its passes need, filled with noise.
class ConvolutionBench {
 public:
  ConvolutionBench(const ConvolutionSpec& spec, std::string_view algorithm)
      : device_(make_cpu_device(1, algorithm)),
        stream_(device_->stream()),
        plan_(device_->convolution(spec)),
        x_(noise_.tensor(spec.input.x, spec.input.type)),
        dx_(noise_.tensor(spec.input.x, spec.input.type)),
        y_(noise_.tensor(spec.output(), spec.input.type)),
        w_(noise_.tensor(spec.weights(), Type::f32)),
        dw_(noise_.tensor(spec.weights(), Type::f32)),
        b_(noise_.tensor({spec.filters}, Type::f32)),
        db_(noise_.tensor({spec.filters}, Type::f32)),
        scratch_(noise_.memory(plan_->scratch_bytes())),
        flops_(2.0 * static_cast<double>(spec.output().count()) *
               static_cast<double>(spec.weights().row())) {}

  void run(Pass pass) {
    if (pass == Pass::forward) plan_->forward(*stream_, x_, w_, b_, y_, scratch_);
    if (pass == Pass::data) plan_->backward_data(*stream_, y_, w_, dx_, scratch_);
    if (pass == Pass::weights) plan_->backward_weights(*stream_, x_, y_, dw_, db_, scratch_);
  }
  double flops() const { return flops_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  NoiseTensors noise_{*device_};
  std::unique_ptr<AffinePlan> plan_;
  View x_, dx_, y_, w_, dw_, b_, db_;
  std::byte* scratch_;
  double flops_;
};

std::string implementation(const ConvolutionSpec& spec, std::string_view algorithm) {
  return make_cpu_device(1, algorithm)->convolution(spec)->implementation();
}

void add(const std::string& shape, const ConvolutionSpec& spec) {
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
            ConvolutionBench bench(spec, entry.name);
            bench.run(pass);  // touches the memory
            for (auto _ : state) bench.run(pass);
            state.counters["FLOP"] =
                benchmark::Counter(bench.flops(), benchmark::Counter::kIsIterationInvariantRate);
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
      Recorder device;
      if (!device.traits().computes(type)) continue;
      Model(device, entry, entry.sample, 10, /*batch=*/64, type, /*training=*/true);
      for (const ConvolutionSpec& spec : device.specs) specs.try_emplace(title(spec), spec);
    }
  }
  for (const auto& [shape, spec] : specs) add(shape, spec);
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::run_google_benchmarks(argc, argv, "bench_convolution", add_convolutions);
}
