// Google Benchmark over the convolutions of every model by every algorithm of the CPU: one thread,
// batch 64.
//
//   ./bench_convolution --benchmark_filter='8x8, 64.*/fp32'
//
// FLOP/s count the operations of the direct convolution for every algorithm, so that the fastest
// algorithm has the most. An algorithm that has no kernel of its own for a shape is left out. The
// label names the kernel, and marks the choice of `auto`.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "bench/affine_bench.h"
#include "bench/google_options.h"
#include "src/base/check.h"
#include "src/device/cpu/convolution.h"

namespace {

using namespace lockstep;

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
  for (const auto& [shape, spec] : specs) add(shape, spec);
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::run_google_benchmarks(argc, argv, "bench_convolution", add_convolutions);
}
