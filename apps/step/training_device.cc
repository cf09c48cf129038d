#include "apps/step/training_device.h"

#include "apps/step/tuning.h"
#include "net/model.h"
#include "src/base/check.h"
#include "src/base/table.h"
#include "src/files/file.h"

namespace lockstep {

std::unique_ptr<Device> make_training_device(const Comm& comm, const StepOptions& options,
                                             Placement& placement) {
  return make_device(comm, options.device.name,
                     {.deterministic = options.device.deterministic,
                      .tf32 = options.device.tf32,
                      .convolution = options.device.convolution,
                      .isa = options.device.isa},
                     placement);
}

void require_precision(const Comm& comm, const Device& device, const StepOptions& options) {
  agree(comm, [&] {
    const DeviceTraits& traits = device.traits();
    if (traits.computes(options.model.precision)) return;
    fail_usage("{} does not compute in {}: say {}", traits.description,
               name_of(options.model.precision),
               traits.computes(Type::bf16)
                   ? "--precision bf16, which has the range of fp32 and needs no loss scale"
                   : "--precision fp32");
  });
}

void choose_kernels(const Comm& comm, Device& device, const StepOptions& options,
                    const RunPlan& plan, const Dataset& dataset, const std::string& before) {
  const auto plan_model = [&] {
    Model(device, find(models(), options.model.name), dataset.sample_shape(), dataset.classes(),
          plan.shard_batch, options.model.precision, /*training=*/true);
  };
  tune(comm, device, cache_folder(), plan_model, before);
}

}  // namespace lockstep
