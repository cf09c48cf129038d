// The training step on a GPU: it matches the CPU's within tolerance. It is bitwise identical in two
// runs, with and without graphs, and on one and several ranks.
#include "src/device/cuda/device.h"
#include "tests/mpi/training_step.cc"

namespace lockstep {
namespace {

std::unique_ptr<Device> gpu(bool deterministic = false) {
  return make_cuda_device(
      {.threads = 1, .rank_on_host = world().comm().rank(), .deterministic = deterministic});
}

/// The reducers of the registry, with the same bits in every run.
Variant real(bool no_graph = false) {
  return {.no_graph = no_graph,
          .change = [](StepOptions& options) { options.device.deterministic = true; },
          .nccl_double = false};
}

void expect_near(const Outcome& is, const Outcome& wanted, double tolerance) {
  ASSERT_EQ(is.totals.size(), wanted.totals.size());
  for (std::size_t n = 0; n < is.totals.size(); ++n) {
    EXPECT_NEAR(is.totals[n].cross_entropy, wanted.totals[n].cross_entropy,
                tolerance * wanted.totals[n].cross_entropy)
        << "step " << n;
    EXPECT_EQ(is.totals[n].stop, n == 7) << "step " << n;
    EXPECT_EQ(is.totals[n].save, n == 11) << "step " << n;
  }
}

TEST(TrainingStepOnGpu, EagerIsTheCpuWithinTolerance) {
  expect_near(train(*gpu(), "shared", "poll", {.no_graph = true}), on_the_cpu(), 0.02);
}

TEST(TrainingStepOnGpu, DeterministicIsTheSameTwice) {
  const std::unique_ptr<Device> device = gpu(true);
  const Outcome first = train(*device, "shared", "poll", {.no_graph = true});
  expect_same(train(*device, "shared", "poll", {.no_graph = true}), first);
}

/// On one rank by NCCL; ranks that share a GPU have no graph, and it holds of itself.
TEST(TrainingStepOnGpu, RepeatedItIsWhatItIsEager) {
  const std::unique_ptr<Device> device = gpu(true);
  expect_same(train(*device, "auto", "auto", real()), train(*device, "auto", "auto", real(true)));
}

TEST(TrainingStepOnGpu, OnRanksThatShareItItIsOneRankWithTheirShards) {
  const std::unique_ptr<Device> device = gpu(true);
  Variant alone = real();
  alone.alone = true;
  expect_same(train(*device, "shared", "auto", real()), train(*device, "shared", "auto", alone));
}

}  // namespace
}  // namespace lockstep
