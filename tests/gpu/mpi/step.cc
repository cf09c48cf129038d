// The training step on a GPU: eager, with gradients summed through the host, it is the CPU's within
// tolerance, and in two runs the same.
#include "src/cuda/device.h"
#include "tests/mpi/training_step.cc"

namespace lockstep {
namespace {

std::unique_ptr<Device> gpu(bool deterministic = false) {
  return make_cuda_device(
      {.threads = 1, .rank_on_host = world().comm().rank(), .deterministic = deterministic});
}

TEST(TrainingStepOnGpu, EagerIsTheCpuWithinTolerance) {
  const Outcome cpu = on_the_cpu();
  const std::unique_ptr<Device> device = gpu();
  const Outcome is = train(*device, "shared", "poll", /*no_graph=*/true);
  ASSERT_EQ(is.totals.size(), cpu.totals.size());
  for (std::size_t n = 0; n < is.totals.size(); ++n) {
    EXPECT_NEAR(is.totals[n].cross_entropy, cpu.totals[n].cross_entropy,
                0.02 * cpu.totals[n].cross_entropy)
        << "step " << n;
    EXPECT_EQ(is.totals[n].stop, n == 7) << "step " << n;
    EXPECT_EQ(is.totals[n].save, n == 11) << "step " << n;
  }
}

TEST(TrainingStepOnGpu, DeterministicIsTheSameTwice) {
  const std::unique_ptr<Device> device = gpu(true);
  const Outcome first = train(*device, "shared", "poll", true);
  expect_same(train(*device, "shared", "poll", true), first);
}

}  // namespace
}  // namespace lockstep
