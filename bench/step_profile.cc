#include "bench/step_profile.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstring>

#include "bench/affine_bench.h"

namespace lockstep {
namespace {

double processor_seconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}
double thread_seconds() { return processor_seconds(CLOCK_THREAD_CPUTIME_ID); }
double process_seconds() { return processor_seconds(CLOCK_PROCESS_CPUTIME_ID); }

double bytes_of(Shape shape, Type type) {
  return static_cast<double>(shape.count()) * static_cast<double>(size_of(type));
}

}  // namespace

MachineLimits machine_limits(Device& device, Type type) {
  constexpr std::size_t kBytes = std::size_t{128} << 20;
  AffineBench product(device, large_product(type));
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const auto seconds = [](const auto& work) {
    const double start = thread_seconds();
    work();
    return thread_seconds() - start;
  };
  MachineLimits limits;
  // The best of five counts: other programs can only slow a machine down.
  for (int i = 0; i < 5; ++i) {
    const double multiplied = seconds([&] { product.forward(); });
    limits.flops = std::max(limits.flops, kLargeProductFlops / multiplied);
    const double copied = seconds([&] { std::memcpy(to.data(), from.data(), kBytes); });
    limits.bytes = std::max(limits.bytes, 2.0 * kBytes / copied);
    std::swap(from[i], to[kBytes - 1 - i]);  // so that the copy has an effect
  }
  return limits;
}

StepProfile::StepProfile(TrainingStep& step) : step_(step), layers_(step.model().layers().size()) {}

void StepProfile::start() {
  step_.time_layers(this);
  // Negative now, so that stop() only adds.
  thread_ = -thread_seconds();
  process_ = -process_seconds();
}

void StepProfile::stop(int steps) {
  thread_ += thread_seconds();
  process_ += process_seconds();
  steps_ = steps;
  step_.time_layers(nullptr);
}

void StepProfile::begin() { began_ = thread_seconds(); }

void StepProfile::end(int layer, bool backward) {
  const double seconds = thread_seconds() - began_;
  (backward ? layers_[layer].backward : layers_[layer].forward) += seconds;
}

nlohmann::ordered_json StepProfile::rows(const StepTimes& parts, int shards) const {
  const Model& model = step_.model();
  const std::vector<LayerSummary>& layers = model.layers();
  const double step = thread_ / steps_;
  auto rows = nlohmann::ordered_json::array();
  double rest = step;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerSummary& layer = layers[i];
    const double forward = layers_[i].forward / steps_, backward = layers_[i].backward / steps_;
    if (forward + backward == 0) continue;  // its holder computes it
    // The first layer needs no gradient of its input, so it has two products instead of three.
    const bool first = layer.inputs.front() == LayerSummary::kInput;
    double read = 0;
    for (const int input : layer.inputs)
      read += input == LayerSummary::kInput ? bytes_of(model.input(), model.input_type())
                                            : bytes_of(layers[input].output, model.type());
    const double bytes = read + bytes_of(layer.output, model.type()) +
                         static_cast<double>(sizeof(float) * layer.parameters);
    rows.push_back({{"part", layer.name},
                    {"kernel", layer.implementation},
                    {"forward_seconds", forward},
                    {"backward_seconds", backward},
                    {"share", (forward + backward) / step},
                    {"flops", shards * 2 * layer.multiply_adds * (first ? 2 : 3)},
                    {"bytes", shards * 3 * bytes}});
    rest -= forward + backward;
  }
  const auto add = [&](const char* name, double seconds) {
    rows.push_back({{"part", name}, {"seconds", seconds}, {"share", seconds / step}});
  };
  add("loss, optimizer, sums of branches, waits", rest);
  add("  optimizer (wall time)", parts.optimizer / steps_);
  add("  wait for the loader (wall time)", parts.loader / steps_);
  add("  exposed all-reduce (wall time)", parts.exposed / steps_);
  add("other threads: loader, all-reduce", (process_ - thread_) / steps_);
  return rows;
}

void StepProfile::print(const nlohmann::ordered_json& rows, const MachineLimits& limits) {
  fmt::print(
      "limits of a thread: {:.0f} GFLOP/s (matrix product), {:.1f} GB/s (copy of memory)\n\n",
      limits.flops * 1e-9, limits.bytes * 1e-9);
  fmt::print("{:<32} {:>9} {:>9} {:>6} {:>8} {:>8} {:>6}  {}\n", "processor time of a step",
             "forward", "backward", "share", "GFLOP/s", "GB/s", "limit", "kernel");
  for (const auto& row : rows) {
    const std::string name = row["part"];
    const double share = row["share"];
    if (row.contains("seconds")) {
      fmt::print("{:<42} {:>9.3f} {:>5.1f}%\n", name, row["seconds"].get<double>() * 1e3,
                 share * 100);
      continue;
    }
    const double forward = row["forward_seconds"], backward = row["backward_seconds"];
    const double seconds = std::max(forward + backward, 1e-9);
    const double flops = row["flops"].get<double>(), bytes = row["bytes"].get<double>();
    // The larger of both: a kernel is bound by its products or by its memory.
    const double limit = std::max(flops / limits.flops, bytes / limits.bytes) / seconds;
    fmt::print("{:<32} {:>9.3f} {:>9.3f} {:>5.1f}% {:>8} {:>8.1f} {:>5.0f}%  {}\n", name,
               forward * 1e3, backward * 1e3, share * 100,
               flops > 0 ? fmt::format("{:.0f}", flops / seconds * 1e-9) : "",
               bytes / seconds * 1e-9, limit * 100, row["kernel"].get<std::string>());
  }
}

}  // namespace lockstep
