// The training step on a device that works later: given ahead, staged through the host or summed in
// its streams, repeated as a graph, it gives the CPU's bits.
#include "apps/training_step.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/flight_recorder.h"
#include "net/layers.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/nccl_double.h"
#include "tests/support/peers_double.h"

namespace lockstep {
namespace {

constexpr int kSteps = 20;

/// Sixty images of noise, none like another.
class Noise : public Dataset {
 public:
  std::int64_t size() const override { return 60; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 24, 24, 3}; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % 10);
  }
  void read(std::int64_t index, Random*, void* out, Type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    for (std::int64_t i = 0; i < sample_shape().count(); ++i)
      static_cast<float*>(out)[i] = random.normal();
  }
  std::string describe() const override { return "noise"; }
};

/// One layer of each kind, small enough for many steps.
NamedLayers small_layers(Shape, int classes) {
  NamedLayers layers;
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  layers.emplace_back("conv", convolution(8, 3, true, init));
  layers.emplace_back("norm", response_norm(2, 1, 0.1f, 0.75f));
  layers.emplace_back("pool", max_pool(3, 2, true));
  layers.emplace_back("hidden", dense(16, true, init));
  layers.emplace_back("logits", dense(classes, false, init));
  return layers;
}

/// What a run has come to.
struct Outcome {
  std::vector<StepTotals> totals;
  std::vector<std::vector<float>> arenas;
  std::string policy;
  int most_ahead = 0;  ///< steps that were given before the oldest was taken
};

/// kSteps steps, two shards on each rank; two of the steps with a vote.
Outcome train(Device& device, const std::string& reducer, const std::string& progress,
              bool no_graph = false, const NcclPlan& nccl = {}) {
  const Comm comm = world().comm();
  const Noise data;
  Options options;
  options.ema = 0.99f;
  options.bucket_mb = 0.01;
  options.reducer = reducer == "nccl" || reducer == "cuda_ipc" ? "shared" : reducer;
  options.no_graph = no_graph;
  RunPlan plan;
  plan.seed = 3;
  plan.shards = 2 * comm.size();
  plan.own_shards = 2;
  plan.first_shard = 2 * comm.rank();
  plan.shard_batch = 2;
  plan.global_batch = plan.shards * plan.shard_batch;
  const ModelEntry entry{"small", "", data.sample_shape(), false, small_layers};
  StepParts parts = make_step_parts(world(), device, entry, data, options, plan);
  NcclDouble library(comm, device, nccl);
  const ReducerSpec spec{comm.duplicate(), device, parts.model->layout().count, parts.buckets, ""};
  if (reducer == "nccl") parts.reducer = make_nccl_reducer(spec, library, {});
  if (reducer == "cuda_ipc") parts.reducer = make_peer_reducer(spec, make_peers_double);
  parts.policy = choose_policy(progress, *parts.reducer, world().threads_allowed());
  EXPECT_GT(parts.buckets.size(), 2u);
  // Outlives the steps that read from it, however they end.
  const auto loader = make_loader(device, data,
                                  {.seed = plan.seed,
                                   .global_batch = plan.global_batch,
                                   .shards = plan.shards,
                                   .first_shard = plan.first_shard,
                                   .own_shards = plan.own_shards});
  TrainingStep step(std::move(parts), device, world().flight_recorder().mine(), options, plan);
  Outcome outcome;
  for (int n = 0; n < kSteps; ++n) {
    const Votes votes{n == 7 && comm.rank() == 0, n == 11 && comm.rank() == comm.size() - 1};
    step.give(*loader, n, 0.05f / static_cast<float>(n + 1), votes);
    const int ahead = n + 1 - static_cast<int>(outcome.totals.size());
    outcome.most_ahead = std::max(outcome.most_ahead, ahead);
    while (const auto totals = step.take()) outcome.totals.push_back(*totals);
  }
  while (const auto totals = step.take(true)) outcome.totals.push_back(*totals);
  for (const Section& section : step.sections())
    outcome.arenas.emplace_back(section.arena, section.arena + step.layout().count);
  return outcome;
}

void expect_same(const Outcome& is, const Outcome& wanted) {
  ASSERT_EQ(is.totals.size(), wanted.totals.size());
  for (std::size_t n = 0; n < is.totals.size(); ++n) {
    EXPECT_EQ(is.totals[n].cross_entropy, wanted.totals[n].cross_entropy) << "step " << n;
    EXPECT_EQ(is.totals[n].top1_share, wanted.totals[n].top1_share) << "step " << n;
    EXPECT_EQ(is.totals[n].stop, n == 7) << "step " << n;
    EXPECT_EQ(is.totals[n].save, n == 11) << "step " << n;
  }
  ASSERT_EQ(is.arenas.size(), wanted.arenas.size());
  for (std::size_t arena = 0; arena < is.arenas.size(); ++arena) {
    EXPECT_EQ(std::memcmp(is.arenas[arena].data(), wanted.arenas[arena].data(),
                          is.arenas[arena].size() * sizeof(float)),
              0)
        << "arena " << arena;
  }
}

Outcome on_the_cpu() { return train(*make_cpu_device(1), "shared", "poll"); }

TEST(TrainingStep, OnTheCpuTotalsAreThereAtOnce) {
  const Outcome outcome = on_the_cpu();
  EXPECT_EQ(outcome.most_ahead, 1);
  EXPECT_EQ(outcome.totals.size(), 20u);
  EXPECT_NE(outcome.totals.back().cross_entropy, outcome.totals.front().cross_entropy);
  expect_same(outcome, outcome);  // finite: a NaN is not the same as itself
}

TEST(TrainingStep, GivenAheadAndStagedItGivesTheCpusBits) {
  const auto device = make_async_device();
  const Outcome wanted = on_the_cpu();
  const Outcome staged = train(*device, "shared", "poll");
  EXPECT_EQ(staged.most_ahead, device->run_ahead() + 1);
  expect_same(staged, wanted);
  expect_same(train(*device, "tree", "auto"), wanted);
}

TEST(TrainingStep, SummedInEachOthersMemoryItGivesTheCpusBits) {
  const auto device = make_async_device();
  const Outcome wanted = on_the_cpu();
  expect_same(train(*device, "cuda_ipc", "poll"), wanted);
  if (world().threads_allowed()) expect_same(train(*device, "cuda_ipc", "thread"), wanted);
}

TEST(TrainingStep, RepeatedAsAGraphItGivesTheSameBits) {
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  const Outcome eager = train(*make_async_device({.captures = false}), "nccl", "auto");
  int graphs = 0;
  expect_same(train(*make_async_device({.captured = &graphs}), "nccl", "auto"), eager);
  EXPECT_EQ(graphs, 1);
  expect_same(train(*make_async_device({.captured = &graphs}), "nccl", "auto", true), eager);
  EXPECT_EQ(graphs, 1) << "--no-graph";
  // MPI adds in an order of its own, which with two numbers makes no difference.
  if (world().comm().size() <= 2) expect_same(eager, on_the_cpu());
}

TEST(TrainingStep, WhatTheLibraryOfTheDeviceReportsEndsTheRunWithItsCause) {
  for (const int sums : {0, 4, 40}) {  // in an eager step, and in one that is repeated
    try {
      train(*make_async_device(), "nccl", "auto", false, {.sums_until_error = sums});
      ADD_FAILURE() << "nothing was thrown after " << sums << " sums";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("unhandled cuda error"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace lockstep
