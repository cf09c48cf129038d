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
#include "apps/run/augmentation.h"
#include "apps/step/training_device.h"
#include "apps/step/training_step.h"
#include "apps/step/tuning.h"
#include "bench/bare.h"
#include "collectives/comm/flight_recorder.h"
#include "collectives/watch/watchdog.h"
#include "src/base/clock.h"
#include "src/base/table.h"
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
  return training != nullptr;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(World& world, BenchOptions& o) {
  const Comm comm = world.comm();
  Record& record = world.flight_recorder().mine();
  world.watchdog().set_timeout(o.training.ranks.timeout);
  if (o.training.schedule.steps == 0) o.training.schedule.steps = 50;
  Placement placement = place(comm, o.training.device.threads);
  DatasetPair data;
  agree(comm, [&] {
    data = find(datasets(), o.training.data.dataset)
               .open(o.training.data.folder, o.training.schedule.seed);
    set_augmentation(o.training, *data.train);
  });
  RunPlan plan;
  agree(comm, [&] {
    plan =
        plan_run(o.training, {comm.rank(), comm.size(), placement.threads}, data.train->size(), {});
  });
  const auto device = make_training_device(comm, o.training, placement);
  require_precision(comm, *device, o.training);
  record.phase("choosing kernels", slow_tuning(*device));
  choose_kernels(comm, *device, o.training, plan, *data.train, "");
  record.phase("making the model");
  const ModelEntry& entry = find(models(), o.training.model.name);
  TrainingStep step(make_step_parts(world, *device, entry, *data.train, o.training, plan), *device,
                    record, o.training, plan);
  const auto loader = make_loader(*device, *data.train, loader_spec(o.training, plan, step));

  const auto bare_times = [&] {
    comm.barrier();
    if (!o.bare) return BareTimes{};
    record.phase("timing the floor");
    return time_bare(*device, entry, data.train->sample_shape(), data.train->classes(),
                     plan.shard_batch, o.training.model.precision, /*rounds=*/15, record);
  };
  const BareTimes before = bare_times();
  comm.barrier();
  std::vector<double> seconds;
  StepTimes start_times;
  for (std::int64_t n = 0; n < o.warmup + plan.steps; ++n) {
    if (n == o.warmup) start_times = step.times();
    const double start = now_seconds();
    step.run(*loader, n, static_cast<float>(o.training.schedule.rate.base), {});
    if (n >= o.warmup) seconds.push_back(now_seconds() - start);
  }
  const StepTimes times = step.times();
  const BareTimes after = bare_times();
  if (comm.rank() != 0) return kExitSuccess;

  const double step_seconds = median(seconds), count = static_cast<double>(plan.steps);
  const double flops = step.model().training_flops() * plan.own_shards;  // of this rank
  const double bare = plan.own_shards * (before.affine_seconds + after.affine_seconds) / 2;
  const double gemm = (before.gemm_flops + after.gemm_flops) / 2;
  std::int64_t parameters = 0;
  for (const LayerSummary& layer : step.model().layers()) parameters += layer.parameters;
  const auto part = [&](double StepTimes::*member) {
    return (times.*member - start_times.*member) / count;
  };
  nlohmann::ordered_json j;
  j["images_per_s"] = static_cast<double>(plan.global_batch) / step_seconds;
  j["seconds_per_step"] = step_seconds;
  j["ranks"] = comm.size();
  j["threads"] = placement.threads;
  j["global_batch"] = plan.global_batch;
  j["precision"] = name_of(o.training.model.precision);
  j["parameters"] = parameters;
  j["reducer"] = step.reducer().traits().name;
  j["gflops_per_rank"] = flops / step_seconds * 1e-9;
  if (o.bare) {
    j["gemm_gflops_per_rank"] = gemm * 1e-9;
    j["share_of_gemm"] = flops / step_seconds / gemm;
    j["bare_linear_seconds"] = bare;
    j["share_of_bare_linear"] = bare / step_seconds;
  }
  j["forward_seconds"] = part(&StepTimes::forward);
  j["backward_seconds"] = part(&StepTimes::backward);
  j["optimizer_seconds"] = part(&StepTimes::optimizer);
  j["exposed_communication_seconds"] = part(&StepTimes::exposed);
  j["loader_wait_seconds"] = part(&StepTimes::loader);
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
