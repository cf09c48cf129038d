// The speed of the training step, and where its time goes: mpirun -np 2 ./bench_step --batch 64
// --threads 1
//
// The step is the trainer's own (apps/step/training_step.h), loader included, on the generated data
// or on --data. Beside it, in the same process, stands the floor: the network's convolutions and
// dense layers alone. All options of train_cifar that bear on a step are taken: --model and
// --dataset of the other programs too.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/options/help.h"
#include "apps/options/options.h"
#include "apps/run/run_setup.h"
#include "bench/bare.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/watchdog.h"
#include "src/base/clock.h"
#include "src/data/dataset.h"

namespace lockstep {
namespace {

struct BenchOptions {
  int warmup = 5;
  bool json = false, bare = true;
  Options training;
};

bool parse(int argc, char** argv, BenchOptions& o, std::string& text) {
  CLI::App app("Times the training step (besides these options: those of train_cifar)",
               "bench_step");
  app.option_defaults()->always_capture_default();
  app.add_option("--warmup", o.warmup, "Steps before the measured ones")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--json", o.json, "Print one line of JSON instead of the table");
  app.add_flag("--bare,!--no-bare", o.bare, "Measure the floor too");
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    text = app.help();
    return false;
  } catch (const CLI::ParseError& error) {
    fail_usage("{}; --help lists all options", error.what());
  }
  std::vector<std::string> rest = app.remaining();
  std::vector<char*> arguments{argv[0]};
  for (std::string& word : rest) arguments.push_back(word.data());
  const auto training =
      parse_options(static_cast<int>(arguments.size()), arguments.data(), {"bench_step"}, text);
  if (training) o.training = *training;
  if (o.training.schedule.steps == 0) o.training.schedule.steps = 50;
  return training != nullptr;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Times of the floor on each rank; zeros with --no-bare. Collective.
BareTimes floor_times(const RunSetup& setup, bool bare) {
  setup.comm.barrier();
  if (!bare) return {};
  setup.record.phase("timing the floor");
  const Dataset& data = *setup.data.train;
  return time_bare(*setup.device, setup.entry, data.sample_shape(), data.classes(),
                   setup.plan.shard_batch, setup.options.model.precision, /*rounds=*/15,
                   setup.record);
}

/// Times of the measured steps.
struct StepSeconds {
  std::vector<double> all;
  StepTimes parts;  ///< sums
};

StepSeconds time_steps(const RunSetup& setup, TrainingStep& step, Loader& loader, int warmup) {
  StepSeconds result;
  StepTimes start;
  const auto rate = static_cast<float>(setup.options.schedule.rate.base);
  for (std::int64_t n = 0; n < warmup + setup.plan.steps; ++n) {
    if (n == warmup) start = step.times();
    const double begin = now_seconds();
    step.run(loader, n, rate, {});
    if (n >= warmup) result.all.push_back(now_seconds() - begin);
  }
  result.parts = step.times() - start;
  return result;
}

/// The result by name. `floor`: null with --no-bare.
nlohmann::ordered_json to_json(const RunSetup& setup, const TrainingStep& step,
                               const StepSeconds& seconds, const BareTimes* floor) {
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
  setup.choose_kernels();
  TrainingStep step = setup.make_step();
  const auto loader = setup.make_loader(step);

  const BareTimes before = floor_times(setup, o.bare);
  setup.comm.barrier();
  const StepSeconds seconds = time_steps(setup, step, *loader, o.warmup);
  const BareTimes after = floor_times(setup, o.bare);
  if (setup.comm.rank() != 0) return kExitSuccess;

  const BareTimes mean{.affine_seconds = (before.affine_seconds + after.affine_seconds) / 2,
                       .gemm_flops = (before.gemm_flops + after.gemm_flops) / 2};
  const auto j = to_json(setup, step, seconds, o.bare ? &mean : nullptr);
  if (o.json) {
    fmt::print("{}\n", j.dump());
    return kExitSuccess;
  }
  for (const auto& [name, value] : j.items()) {
    fmt::print("{:<30} {}\n", name,
               value.is_number_float() ? fmt::format("{:.6g}", value.get<double>())
               : value.is_string()     ? value.get<std::string>()
                                       : value.dump());
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
      [&](World& world) { return run(world, options); });
}
