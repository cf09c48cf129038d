// Google Benchmark over the convolutions of every model by every algorithm of the CPU: one thread,
// batch 64. `bench_step --profile` measures layers of all kinds.
//
//   ./bench_layer --benchmark_filter='8x8, 64.*/fp32'
//
// FLOP/s count the operations of direct sums for every algorithm, so that the fastest algorithm has
// the most. An algorithm that has no kernel of its own for a shape is left out. The label names the
// kernel, and marks the choice of `auto`.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "bench/affine_bench.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/text.h"
#include "src/device/cpu/convolution.h"

namespace lockstep {
namespace {

std::string title(const ConvolutionSpec& spec) {
  const Shape& x = spec.input.x;
  std::string text = fmt::format("{}x{}, {} -> {}, {}x{}", x[1], x[2], x[3], spec.filters,
                                 spec.kernel_height(), spec.kernel);
  if (spec.stride > 1) text += fmt::format(", stride {}", spec.stride);
  if (spec.pad == 0 && spec.kernel > 1) text += ", valid";
  return text + "/" + std::string(name_of(spec.input.type));
}

struct Pass {
  const char* name;
  void (AffineBench::*run)();
};
constexpr Pass kPasses[] = {{"forward", &AffineBench::forward},
                            {"data", &AffineBench::backward_data},
                            {"weights", &AffineBench::backward_weights}};

std::string implementation(const ConvolutionSpec& spec, std::string_view algorithm) {
  return make_cpu_device(1, algorithm)->convolution(spec)->implementation();
}

void add_convolution(const std::string& shape, const ConvolutionSpec& spec) {
  const std::string chosen = implementation(spec, "auto");
  std::vector<std::string> seen;
  // The first entry is `auto`, which selects one of the others.
  for (const ConvolutionEntry& entry : convolutions().subspan(1)) {
    const std::string name = implementation(spec, entry.name);
    if (std::find(seen.begin(), seen.end(), name) != seen.end()) continue;
    seen.push_back(name);
    for (const Pass& pass : kPasses) {
      if (pass.run == &AffineBench::backward_data && !spec.input.input_gradient) continue;
      benchmark::RegisterBenchmark(
          fmt::format("{}/{}/{}", shape, entry.name, pass.name).c_str(),
          [=, &entry](benchmark::State& state) {
            const auto device = make_cpu_device(1, entry.name);
            AffineBench bench(*device, spec);
            (bench.*pass.run)();  // touches the memory
            for (auto _ : state) (bench.*pass.run)();
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
      // Models have many shapes in common. Each shape is measured once, by its title.
      RecordingDevice device;
      if (!device.traits().computes(type)) continue;
      const std::int64_t batch = entry.sample[1] > 64 ? 8 : 64;  // photos are larger
      Model(device, entry, entry.sample.with_batch(batch), 10, type, /*training=*/true);
      for (const ConvolutionSpec& spec : device.convolutions) specs.try_emplace(title(spec), spec);
    }
  }
  for (const auto& [shape, spec] : specs) add_convolution(shape, spec);
}

/// Throws the usage error for values with which Google Benchmark would end the process itself.
void check_google_option(std::string_view option) {
  constexpr std::pair<std::string_view, const char*> kValues[] = {
      {"--benchmark_format=", "console,json,csv"},
      {"--benchmark_out_format=", "console,json,csv"},
      {"--benchmark_time_unit=", "ns,us,ms,s"}};
  for (const auto& [name, values] : kValues) {
    if (option.starts_with(name) &&
        !std::ranges::count(split(values, ','), option.substr(name.size())))
      fail_usage("{} is not supported. Pass one of {}.", option, values);
  }
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
