// Every optimizer on a GPU: three steps change parameters, slots and averages as on the CPU.
#include <gtest/gtest.h>

#include <vector>

#include "net/optimizer.h"
#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "tests/support/device_array.h"
#include "tests/support/layouts.h"
#include "tests/support/tensor.h"
#include "tests/support/update.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

/// Parameters, averages and slots after three steps.
std::vector<Floats> stepped(Device& device, const OptimizerEntry& entry) {
  const Layout layout = lay_out({{"one/weights", {24, 3, 3, 16}},
                                 {"two/weights", {64, 3, 3, 64}},
                                 {"two/biases", {64}},
                                 {"three/weights", {64, 3, 3, 64}},
                                 {"four/weights", {10, 100}}});
  const auto optimizer = make_optimizer(entry.name, {});
  optimizer->plan(device, layout);
  Random random(5, Purpose::generate, 0, 0);
  const auto noise = [&] {
    Floats values(layout.count);
    for (const Parameter& parameter : layout.parameters)
      for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i)
        values[i] = random.normal();
    return values;
  };
  const auto stream = device.stream();
  const auto arena = [&](const Floats& values) {
    return DeviceArray<float>(device, *stream, values);
  };
  const auto parameters = arena(noise()), average = arena(Floats(layout.count)),
             table = arena(decays(layout, 1e-3f));
  std::vector<DeviceArray<float>> slots;
  for (std::size_t i = 0; i < optimizer->slots().size(); ++i)
    slots.push_back(arena(Floats(layout.count)));
  const Memory scratch = device.allocate(sizeof(LayerScratch), Place::device),
               now = device.allocate(sizeof(UpdateRates), Place::host);
  for (std::int64_t step = 0; step < 3; ++step) {
    const auto gradients = arena(noise());
    TrainingState state{parameters.data(), {}, average.data(), gradients.data(), table.data()};
    state.scratch = reinterpret_cast<LayerScratch*>(scratch.get());
    state.lanes = device.traits().lanes;
    for (const auto& slot : slots) state.slots.push_back(slot.data());
    auto* const rates = reinterpret_cast<UpdateRates*>(now.get());
    *rates = {0.02f, 0.9f, optimizer->corrections(step)};
    update(*stream, layout, {0, layout.count}, *optimizer, state, rates);
    stream->synchronize();
  }
  std::vector<Floats> result{parameters.values(), average.values()};
  for (const auto& slot : slots) result.push_back(slot.values());
  return result;
}

TEST(OptimizersOnGpu, StepAsOnTheCpu) {
  const auto gpu = make_cuda_device({.threads = 1});
  const auto cpu = make_cpu_device(1);
  for (const OptimizerEntry& entry : optimizers()) {
    SCOPED_TRACE(entry.name);
    const auto is = stepped(*gpu, entry), wanted = stepped(*cpu, entry);
    ASSERT_EQ(is.size(), wanted.size());
    // Products of Newton-Schulz may take factors of 10 bits.
    const double tolerance = entry.name == "muon" ? 1e-2 : 1e-5;
    for (std::size_t arena = 0; arena < is.size(); ++arena) {
      EXPECT_LT(relative_error(is[arena], wanted[arena]), tolerance) << "arena " << arena;
    }
  }
}

}  // namespace
}  // namespace lockstep
