// Every optimizer on a GPU: three steps change parameters, slots and averages as on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "net/optimizer.h"
#include "src/base/random.h"
#include "src/device/cuda/device.h"
#include "tests/support/update.h"

namespace lockstep {
namespace {

using Floats = std::vector<float>;

Layout filters_and_others() {
  Layout layout;
  for (const auto& [name, shape] : {std::pair("one/weights", Shape{24, 3, 3, 16}),
                                    {"two/weights", {64, 3, 3, 64}},
                                    {"two/biases", {64}},
                                    {"three/weights", {64, 3, 3, 64}},
                                    {"four/weights", {10, 100}}}) {
    layout.parameters.push_back({name, shape, {}, 0, {layout.count, shape.count()}, 0});
    layout.count += Layout::aligned(shape.count());
  }
  return layout;
}

/// An arena in memory of the device, with its copy for the host.
class Arena {
 public:
  Arena(Device& device, const Floats& values)
      : device_(device),
        stream_(device.stream()),
        count_(values.size()),
        pinned_(device.allocate(count_ * sizeof(float), Place::host)),
        memory_(device.allocate(count_ * sizeof(float), Place::device)) {
    std::copy(values.begin(), values.end(), host());
    device_.copy(*stream_, data(), host(), count_ * sizeof(float));
    stream_->synchronize();
  }
  float* data() { return reinterpret_cast<float*>(memory_.get()); }
  Floats values() {
    device_.copy(*stream_, host(), data(), count_ * sizeof(float));
    stream_->synchronize();
    return {host(), host() + count_};
  }

 private:
  float* host() { return reinterpret_cast<float*>(pinned_.get()); }

  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::size_t count_;
  Memory pinned_, memory_;
};

/// Parameters, averages and slots after three steps.
std::vector<Floats> stepped(Device& device, const OptimizerEntry& entry) {
  const Layout layout = filters_and_others();
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
  Arena parameters(device, noise()), average(device, Floats(layout.count)),
      table(device, decays(layout, 1e-3f));
  std::vector<std::unique_ptr<Arena>> slots;
  for (std::size_t i = 0; i < optimizer->slots().size(); ++i)
    slots.push_back(std::make_unique<Arena>(device, Floats(layout.count)));
  const Memory scratch = device.allocate(sizeof(LayerScratch), Place::device),
               now = device.allocate(sizeof(UpdateRates), Place::host);
  const auto stream = device.stream();
  for (std::int64_t step = 0; step < 3; ++step) {
    Arena gradients(device, noise());
    TrainingState state{parameters.data(), {}, average.data(), gradients.data(), table.data()};
    state.scratch = reinterpret_cast<LayerScratch*>(scratch.get());
    state.lanes = device.traits().lanes;
    for (auto& slot : slots) state.slots.push_back(slot->data());
    auto* const rates = reinterpret_cast<UpdateRates*>(now.get());
    *rates = {0.02f, 0.9f, optimizer->corrections(step)};
    update(*stream, layout, {0, layout.count}, *optimizer, state, rates);
    stream->synchronize();
  }
  std::vector<Floats> result{parameters.values(), average.values()};
  for (auto& slot : slots) result.push_back(slot->values());
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
      double difference = 0, norm = 0;
      for (std::size_t i = 0; i < is[arena].size(); ++i) {
        difference += std::pow(double{is[arena][i]} - wanted[arena][i], 2);
        norm += std::pow(double{wanted[arena][i]}, 2);
      }
      EXPECT_LT(std::sqrt(difference / norm), tolerance) << "arena " << arena;
    }
  }
}

}  // namespace
}  // namespace lockstep
