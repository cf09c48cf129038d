#include "apps/run/run_setup.h"

#include "apps/run/augmentation.h"
#include "apps/step/tuning.h"
#include "collectives/comm/flight_recorder.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/files/file.h"

namespace lockstep {

RunSetup::RunSetup(World& world, const Options& options, const RunShape& shape)
    : world(world),
      options(options),
      entry(find(models(), options.model.name)),
      record(world.flight_recorder().mine()),
      comm(world.comm()),
      shape(shape),
      placement(place(comm, shape.threads)) {
  record.phase("opening the data", kSlowFiles);
  this->shape.threads = placement.threads;
  agree(comm, [&] {
    data = find(datasets(), options.data.dataset).open(options.data.folder, shape.seed);
    require_fit(entry, data.train->sample_shape());
    set_augmentation(options, *data.train);
  });
  expect_same(comm, "files of data", data.identity);
}

void RunSetup::plan_steps(const Position& start) {
  agree(comm, [&] {
    plan = plan_run(options, shape, comm.rank(), comm.size(), data.train->size(), start);
  });
}

void RunSetup::choose_device(Device* given) {
  record.phase("making the model");
  const ComputeOptions& o = options.device;
  if (given == nullptr) {
    own_device_ = make_device(comm, o.name,
                              {.deterministic = o.deterministic,
                               .tf32 = o.tf32,
                               .convolution = o.convolution,
                               .isa = o.isa},
                              placement);
  }
  device = given ? given : own_device_.get();
  agree(comm, [&] { require_precision(*device, options.model.precision); });
}

void RunSetup::choose_kernels(const std::string& before) {
  lockstep::choose_kernels(world, *device, entry, *data.train, plan.shard_batch,
                           options.model.precision, /*training=*/true, before);
}

TrainingStep RunSetup::make_step(Timeline* timeline) const {
  record.phase("making the model");
  return TrainingStep(make_step_parts(world, *device, entry, *data.train, options, plan), *device,
                      record, options, plan, timeline);
}

std::unique_ptr<Loader> RunSetup::make_loader(const TrainingStep& step) const {
  return lockstep::make_loader(*device, *data.train, loader_spec(options, plan, step));
}

void require_precision(const Device& device, Type type) {
  const DeviceTraits& traits = device.traits();
  if (traits.computes(type)) return;
  fail_usage("{} does not compute in {}. Pass {}.", traits.description, name_of(type),
             traits.computes(Type::bf16)
                 ? "--precision bf16, which has the range of fp32 and needs no loss scale"
                 : "--precision fp32");
}

void choose_kernels(World& world, Device& device, const ModelEntry& entry, const Dataset& dataset,
                    std::int64_t batch, Type type, bool training, const std::string& before) {
  world.flight_recorder().mine().phase("choosing kernels", slow_tuning(device));
  const auto plan_model = [&] {
    Model(device, entry, dataset.sample_shape(), dataset.classes(), batch, type, training);
  };
  tune(world.comm(), device, cache_folder(), plan_model, before);
}

}  // namespace lockstep
