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

/// In fp16, with this scale of the loss at first.
Variant half(const std::string& loss_scale) {
  Variant variant = real();
  variant.change = [loss_scale](StepOptions& options) {
    options.device.deterministic = true;
    options.model.precision = Type::f16;
    options.optimizer.loss_scale = loss_scale;
  };
  return variant;
}

TEST(TrainingStepOnGpu, InHalfPrecisionItIsTheCpuWithinTolerance) {
  const std::unique_ptr<Device> device = gpu(true);
  Variant variant = half("dynamic:16384");
  const Outcome is = train(*device, "auto", "auto", variant);
  expect_near(is, on_the_cpu(), 0.05);
  EXPECT_EQ(is.totals.back().loss_scale.last, 16384) << is.totals.back().loss_scale.text();
  EXPECT_EQ(is.totals.back().loss_scale.skipped, 0);
  variant.no_graph = true;
  expect_same(train(*device, "auto", "auto", variant), is);
}

/// A gradient of this network times 65536 is above the largest number of fp16. Each rank has its
/// share of the batch, and so of the gradient.
TEST(TrainingStepOnGpu, InHalfPrecisionAStepThatOverflowsIsSkipped) {
  const int first = 65536 * world().comm().size();
  const Outcome is = train(*gpu(true), "auto", "auto", half(fmt::format("dynamic:{}", first)));
  EXPECT_GE(is.totals.back().loss_scale.skipped, 1) << is.totals.back().loss_scale.text();
  EXPECT_LT(is.totals.back().loss_scale.last, first);
  for (const StepTotals& totals : is.totals) EXPECT_TRUE(std::isfinite(totals.cross_entropy));
}

}  // namespace
}  // namespace lockstep
