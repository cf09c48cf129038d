// The speed of the training step and of its parts: mpirun -np 2 ./bench_step --batch 64 --threads 1
//
// The step is the trainer's own (apps/step/training_step.h) with its loader, on generated data or
// on --data. The same process also measures the floor: only the convolutions and dense layers of
// the network, and the rate of a large matrix product. --profile prints each layer. It supports all
// options of train_cifar, and
// --model and --dataset of the other programs too.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/options/help.h"
#include "apps/run/run_setup.h"
#include "apps/run/training_program.h"
#include "bench/affine_bench.h"
#include "bench/step_profile.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/watchdog.h"
#include "src/base/clock.h"
#include "src/data/dataset.h"

namespace lockstep {
namespace {

struct BenchOptions {
  int warmup = 5;
  bool json = false, no_bare = false, profile = false;
  Options training;
};

bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  const auto declare = [&o](OptionRows& rows) {
    rows.group("Benchmark");
    rows.number("--warmup", o.warmup, Bounds::at_least(0), "Steps before the measured steps")
        .common();
    rows.flag("--json", o.json, "One line of JSON instead of a table").common();
    rows.flag("--no-bare", o.no_bare, "No measurement of the floor").common();
    rows.flag(
            "--profile", o.profile,
            "Processor time of each layer and part of a step, beside the limits of the machine\n"
            "The computing thread is measured, so --threads 1 and CPU cores are meant. Operations "
            "are those of direct sums, so Winograd may exceed the limit.")
        .common();
  };
  const auto training = parse_options(
      argc, argv,
      {.name = "bench_step", .about = "Times the training step", .declare_more = declare}, text);
  if (!training) return false;
  o.training = *training;
  if (o.training.schedule.steps == 0) o.training.schedule.steps = 50;
  return true;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Median seconds of `call`, after one that does not count.
double median_seconds(int rounds, RankRecorder& recorder, const std::function<void()>& call) {
  std::vector<double> seconds;
  for (int i = 0; i < rounds + 1; ++i) {
    const double start = now_seconds();
    call();
    if (i > 0) seconds.push_back(now_seconds() - start);
    recorder.progress();
  }
  return median(std::move(seconds));
}

/// The floor under a training step.
struct FloorTimes {
  double affine_seconds = 0;  ///< medians of all passes of all linear layers of one batch, summed
  double gemm_flops = 0;      ///< per second, of a 1024 x 2048 x 2048 product
};

/// Times the floor on all ranks at once, as they share the machine in a step too; zeros with
/// --no-bare. Collective.
FloorTimes floor_times(const RunSetup& setup, bool bare) {
  constexpr int kRounds = 15;
  setup.comm.barrier();
  if (!bare) return {};
  setup.recorder.phase("timing the floor");
  Device& device = *setup.device;
  const Dataset& data = *setup.data.train;
  const Type type = setup.options.model.precision;
  // The model is made only so that the device lists its linear layers.
  RecordingDevice recorder({std::shared_ptr<void>(), &device});
  Model(recorder, setup.entry, data.sample_shape().with_batch(setup.plan.shard_batch),
        data.classes(), type, /*training=*/true);
  FloorTimes times;
  const auto time_passes = [&](const auto& specs) {
    for (const auto& spec : specs) {
      AffineBench bench(device, spec);
      const auto add = [&](void (AffineBench::*pass)()) {
        times.affine_seconds += median_seconds(kRounds, setup.recorder, [&] {
          (bench.*pass)();
          bench.synchronize();
        });
      };
      add(&AffineBench::forward);
      add(&AffineBench::backward_weights);
      if (spec.input.input_gradient) add(&AffineBench::backward_data);
    }
  };
  time_passes(recorder.convolutions);
  time_passes(recorder.dense_layers);
  AffineBench gemm(device, large_product(type));
  times.gemm_flops = kLargeProductFlops / median_seconds(3, setup.recorder, [&] {
                       gemm.forward();
                       gemm.synchronize();
                     });
  return times;
}

/// Times of the measured steps.
struct StepSeconds {
  std::vector<double> all;
  StepTimes parts;  ///< sums
};

StepSeconds time_steps(const RunSetup& setup, TrainingStep& step, Loader& loader, int warmup,
                       StepProfile* profile) {
  StepSeconds result;
  StepTimes start;
  const auto rate = static_cast<float>(setup.options.schedule.rate.base);
  for (std::int64_t n = 0; n < warmup + setup.plan.steps; ++n) {
    if (n == warmup) start = step.times();
    if (n == warmup && profile != nullptr) profile->start();
    const double begin = now_seconds();
    // run() waits for the totals, so that the time contains all work of the step.
    step.run(loader, n, rate, {});
    if (n >= warmup) result.all.push_back(now_seconds() - begin);
  }
  if (profile != nullptr) profile->stop(static_cast<int>(setup.plan.steps));
  result.parts = step.times() - start;
  return result;
}

/// All results by name. `floor`: null with --no-bare.
nlohmann::ordered_json to_json(const RunSetup& setup, const TrainingStep& step,
                               const StepSeconds& seconds, const FloorTimes* floor) {
  const RunPlan& plan = setup.plan;
  const double step_seconds = median(seconds.all), count = static_cast<double>(plan.steps);
  const double flops = step.model().training_flops() * plan.own_shards;  // of this rank
  std::int64_t parameters = 0;
  for (const LayerSummary& layer : step.model().layers()) parameters += layer.parameters;
  nlohmann::ordered_json j;
  j["images_per_s"] = static_cast<double>(plan.global_batch) / step_seconds;
  j["seconds_per_step"] = step_seconds;
  j["ranks"] = setup.comm.size();
  j["threads"] = plan.threads;
  j["global_batch"] = plan.global_batch;
  j["precision"] = name_of(setup.options.model.precision);
  j["parameters"] = parameters;
  j["reducer"] = step.reducer().traits().name;
  j["gflops_per_rank"] = flops / step_seconds * 1e-9;
  if (floor) {
    const double bare = plan.own_shards * floor->affine_seconds;
    j["gemm_gflops_per_rank"] = floor->gemm_flops * 1e-9;
    j["share_of_gemm"] = flops / step_seconds / floor->gemm_flops;
    j["bare_linear_seconds"] = bare;
    j["share_of_bare_linear"] = bare / step_seconds;
  }
  j["forward_seconds"] = seconds.parts.forward / count;
  j["backward_seconds"] = seconds.parts.backward / count;
  j["optimizer_seconds"] = seconds.parts.optimizer / count;
  j["exposed_communication_seconds"] = seconds.parts.exposed / count;
  j["loader_wait_seconds"] = seconds.parts.loader / count;
  return j;
}

int run(World& world, const BenchOptions& o) {
  const Options& options = o.training;
  world.watchdog().set_timeout(options.ranks.timeout);
  RunShape shape;
  agree(world.comm(), [&] { shape = shape_of(options, world.comm().size()); });
  RunSetup setup(world, options, shape);
  setup.plan_steps();
  setup.choose_device();
  TrainingStep step = setup.make_step();
  const auto loader = setup.make_loader(step, 0);

  const bool bare = !o.no_bare;
  // The floor is measured before and after the steps. A machine that becomes slower meanwhile then
  // changes both alike.
  const FloorTimes before = floor_times(setup, bare);
  setup.comm.barrier();
  StepProfile profile(step);
  const StepSeconds seconds =
      time_steps(setup, step, *loader, o.warmup, o.profile ? &profile : nullptr);
  const FloorTimes after = floor_times(setup, bare);
  const MachineLimits limits =
      o.profile ? machine_limits(*setup.device, options.model.precision) : MachineLimits();
  if (setup.comm.rank() != 0) return kExitSuccess;

  const FloorTimes mean{.affine_seconds = (before.affine_seconds + after.affine_seconds) / 2,
                        .gemm_flops = (before.gemm_flops + after.gemm_flops) / 2};
  auto j = to_json(setup, step, seconds, bare ? &mean : nullptr);
  const auto rows =
      o.profile ? profile.rows(seconds.parts, setup.plan.own_shards) : nlohmann::ordered_json();
  if (o.json) {
    if (o.profile) {
      j["limit_flops"] = limits.flops;
      j["limit_bytes"] = limits.bytes;
      j["profile"] = rows;
    }
    fmt::print("{}\n", j.dump());
    return kExitSuccess;
  }
  for (const auto& [name, value] : j.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_number_float()) text = fmt::format("{:.6g}", value.get<double>());
    fmt::print("{:<30} {}\n", name, text);
  }
  if (o.profile) {
    fmt::print("\n");
    StepProfile::print(rows, limits);
  }
  return kExitSuccess;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  using namespace lockstep;
  BenchOptions options;
  return run_or_print_help(
      argc, argv, "bench_step",
      [&](std::string& answer) { return parse(argc, argv, options = {}, answer); },
      [&](World& world) { return run(world, options); }, Start::any);
}
