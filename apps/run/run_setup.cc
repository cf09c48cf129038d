#include "apps/run/run_setup.h"

#include <algorithm>

#include "apps/record/broadcast.h"
#include "collectives/comm/flight_recorder.h"
#include "src/base/check.h"
#include "src/base/machine.h"
#include "src/base/plural.h"
#include "src/base/table.h"
#include "src/base/text.h"
#include "src/data/class_weights.h"
#include "src/data/drawn_samples.h"
#include "src/data/validation.h"
#include "src/files/file.h"

namespace lockstep {
namespace {

/// Throws the usage Error with the line of the file whose layer does not fit.
void require_shapes(const ModelEntry& entry, const Dataset& data, std::string_view isa) {
  const auto device = make_cpu_device(1, "auto", isa);  // the first device decides the set
  Model(*device, entry, data.sample_shape(), data.classes(), Type::f32, /*training=*/true);
}

/// Throws the usage Error if `measure` needs a class with both samples and others to compare them
/// with, and there is none.
void require_classes(const Dataset& evaluated, const Measure& measure) {
  if (measure.needs != Measure::probabilities) return;
  const std::vector<std::int64_t> samples = samples_by_class(evaluated);
  if (std::ssize(samples) - std::ranges::count(samples, 0) < 2)
    fail_usage("--best {} needs samples of two classes to evaluate. Pass another --best.",
               measure.name);
}

}  // namespace

HostRanks host_ranks(const Comm& comm) {
  const Comm node = comm.node();
  return {.rank = node.rank(), .count = node.size(), .gather = [node](const HostRanks::Work& mine) {
            std::string text;
            agree(node, [&] { text = mine(); });
            return broadcast_object(node, node.gather(text));
          }};
}

RunSetup::RunSetup(World& world, const Options& options, const RunShape& shape,
                   const std::function<void()>& end_if_stopped)
    : world(world),
      options(options),
      entry(options.entry),
      recorder(world.flight_recorder().mine()),
      comm(world.comm()),
      shape(shape),
      placement(place(comm, shape.threads)) {
  recorder.phase("opening the data", kSlowFiles);
  this->shape.threads = placement.threads;
  agree(comm, [&] {
    const DatasetEntry& set = find(datasets(), options.data.dataset);
    if (options.data.images.size > 0 && !set.resizes) {
      fail_usage("--image-size: the images of data set {} have one size. Omit it.",
                 options.data.dataset);
    }
    DataSource source = options.data.source(shape.seed);
    source.threads = placement.threads;
    source.host = host_ranks(comm);
    source.host.progress = [&] {
      recorder.progress();
      end_if_stopped();
    };
    data = open_data(set, source);
    require_fit(entry, data.train->sample_shape());
    if (!options.model.network.empty()) require_shapes(entry, *data.train, options.device.isa);
    if (options.reports.patience > 0 && !data.validation)
      fail_usage("--patience needs a validation set. Pass --validation 0.1, or omit --patience.");
    if (options.checkpoints.keep_best > 1 && !data.validation)
      fail_usage("--keep-best needs a validation set. Pass --validation 0.1, or omit --keep-best.");
    require_classes(data.evaluated(), options.reports.measure());
    options.data.set_augmentation(*data.train);
  });
  // Ranks with other files would train on other samples under the same numbers, and no sum would
  // show it.
  expect_same(comm, "files of data", data.identity);
}

void RunSetup::plan_steps(const Position& start) {
  agree(comm, [&] {
    plan = plan_run(options, shape, comm.rank(), comm.size(), data.train->size(), start);
    plan.class_weights = class_weights(options.optimizer.class_weights, data);
  });
  expect_same(comm, "class weights",
              fmt::format("weights = {}", fmt::join(plan.class_weights, " ")));
  const ReportOptions& reports = options.reports;
  const bool often = (reports.epoch_lines && plan.epoch_at(plan.steps) > 1) ||
                     (reports.eval_every > 0 && reports.eval_every < plan.steps);
  if (often && !data.validation) {
    plan.notes.emplace_back(
        "there is no validation set, so the test set selects the best evaluation, and its best "
        "accuracy is too high. --validation 0.1 makes one.");
  }
}

void RunSetup::choose_device(Device* given) {
  recorder.phase("making the model");
  if (given == nullptr)
    own_device_ = make_device(comm, options.device.name, options.device, placement);
  device = given ? given : own_device_.get();
  agree(comm, [&] { require_precision(*device, options.model.precision); });
}

TrainingStep RunSetup::make_step(Timeline* timeline) const {
  recorder.phase("making the model");
  try {
    return TrainingStep(make_step_parts(world, *device, entry, *data.train, options, plan), *device,
                        recorder, options, plan, timeline);
  } catch (const OutOfMemory& error) {
    if (!data.train->format().files) throw;
    // Smaller images are a remedy only for files, which can be read at any size.
    throw OutOfMemory(fmt::format("{}, or a smaller --image-size", error.what()));
  }
}

std::unique_ptr<Loader> RunSetup::make_loader(const TrainingStep& step, std::int64_t done) const {
  LoaderSpec spec = loader_spec(plan);
  spec.first_position = plan.position_of(done);
  spec.type = step.model().input_type();
  // The batches of the step itself, and of those that the device may begin before it ends. A
  // failure is known early enough for a vote.
  spec.ahead = step.steps_ahead() + 1;
  spec.held = step.shards_at_once();
  spec.workers =
      options.data.workers > 0 ? options.data.workers : std::max(1, placement.threads / 2);
  spec.pixels = options.data.pixels;
  spec.mixing = options.data.mixing;
  if (options.data.balanced()) spec.drawn = std::make_shared<const BalancedSamples>(*data.train);
  return lockstep::make_loader(*device, *data.train, spec);
}

void require_precision(const Device& device, Type type) {
  const DeviceTraits& traits = device.traits();
  if (traits.computes(type)) return;
  fail_usage("{} does not compute in {}. Pass --precision fp32.", traits.description,
             name_of(type));
}

}  // namespace lockstep
