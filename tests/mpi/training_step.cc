// The training step on a device that works later: given ahead, staged through the host or summed in
// its streams, repeated as a graph, it gives the CPU's bits.
#include "apps/training_step.h"

#include <gtest/gtest.h>

#include <cstring>

#include "collectives/flight_recorder.h"
#include "net/layers.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/error_of.h"
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

/// With statistics, and a layer in front that wants a gradient through them.
NamedLayers normalized_layers(Shape, int classes) {
  NamedLayers layers;
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  layers.emplace_back("conv", convolution(8, 3, false, init));
  layers.emplace_back("norm", batch_norm());
  layers.emplace_back("pool", max_pool(3, 2, true));
  layers.emplace_back("dropout", dropout(0.1f));
  layers.emplace_back("hidden", dense(16, false, init));
  layers.emplace_back("norm2", batch_norm());
  layers.emplace_back("relu", relu());
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

/// kSteps steps, two shards on each rank, or one and all together; two of the steps with a vote.
Outcome train(Device& device, const std::string& reducer, const std::string& progress,
              bool no_graph = false, const NcclPlan& nccl = {}, bool together = false,
              const Options& asked = {}) {
  const Comm comm = world().comm();
  const Noise data;
  Options options = asked;
  options.ema = 0.99f;
  options.bucket_mb = 0.01;
  options.reducer = reducer == "nccl" || reducer == "cuda_ipc" ? "shared" : reducer;
  options.no_graph = no_graph;
  RunPlan plan;
  plan.seed = 3;
  plan.own_shards = together ? 1 : 2;
  plan.shards = plan.own_shards * comm.size();
  plan.first_shard = plan.own_shards * comm.rank();
  plan.shard_batch = 2;
  plan.global_batch = plan.shards * plan.shard_batch;
  options.sync_bn = together;
  const ModelEntry entry{"small", "", data.sample_shape(), false,
                         together ? normalized_layers : small_layers};
  StepParts parts = make_step_parts(world(), device, entry, data, options, plan);
  NcclDouble library(comm, device, nccl), another(comm, device, nccl);
  const auto on_device = [&](NcclDouble& on, std::int64_t count,
                             const std::vector<Range>& buckets) {
    const ReducerSpec spec{comm.duplicate(), device, count, buckets, ""};
    return reducer == "nccl" ? make_nccl_reducer(spec, on, {})
                             : make_peer_reducer(spec, make_peers_double);
  };
  if (reducer == "nccl" || reducer == "cuda_ipc") {
    parts.reducer = on_device(library, parts.model->layout().count, parts.buckets);
    const std::vector<Range> places = places_of_sums(parts.model->layout());
    if (together) {
      parts.together = std::make_unique<ShardsTogether>(
          device, on_device(another, places.back().end(), places), places, comm.size(), 1);
    }
  }
  parts.policy = choose_policy(progress, *parts.reducer, world().threads_allowed());
  EXPECT_GT(parts.buckets.size(), 2u);
  // Outlives the steps that read from it, however they end.
  const auto loader = make_loader(device, data,
                                  {.seed = plan.seed,
                                   .global_batch = plan.global_batch,
                                   .shards = plan.shards,
                                   .first_shard = plan.first_shard,
                                   .own_shards = plan.own_shards,
                                   .mixing = options.mixing});
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

TEST(TrainingStep, ByTheLengthsOfArraysInGroupsAndOnMixedImagesItGivesTheCpusBits) {
  for (const char* optimizer : {"lars", "lamb"}) {
    Options options;
    options.optimizer = optimizer;
    options.weight_decay = 0.01f;
    options.groups = {{"conv/*", 0.5f, 0.0f}, {"hidden/weights", 0, {}}};
    options.clip_norm = 0.5f;
    options.label_smoothing = 0.1f;
    options.mixing = {4, 0.5f};
    const auto train_so = [&](Device& device, const char* reducer) {
      return train(device, reducer, "auto", false, {}, false, options);
    };
    const Outcome wanted = train_so(*make_cpu_device(1), "shared");
    expect_same(wanted, wanted);  // finite
    expect_same(train_so(*make_async_device(), "shared"), wanted);
    if (!world().threads_allowed()) continue;
    int graphs = 0;
    expect_same(train_so(*make_async_device({.captured = &graphs}), "nccl"),
                train_so(*make_async_device({.captures = false}), "nccl"));
    EXPECT_EQ(graphs, 1);
  }
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

/// As on the CPU, with statistics of all ranks.
TEST(TrainingStep, ShardsTogetherGiveTheCpusBitsInStreamsToo) {
  const auto together = [](Device& device, const std::string& reducer, const std::string& progress,
                           bool no_graph = false) {
    return train(device, reducer, progress, no_graph, {}, true);
  };
  const Outcome wanted = together(*make_cpu_device(1), "shared", "poll");
  const auto device = make_async_device();
  expect_same(together(*device, "shared", "poll"), wanted);
  expect_same(together(*device, "cuda_ipc", "poll"), wanted);
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  int graphs = 0;
  const Outcome eager = together(*make_async_device({.captures = false}), "nccl", "auto");
  expect_same(together(*make_async_device({.captured = &graphs}), "nccl", "auto"), eager);
  EXPECT_EQ(graphs, 1);
  if (world().comm().size() <= 2) expect_same(eager, wanted);
}

TEST(TrainingStep, SeveralShardsTogetherAreForMemoryOfTheHost) {
  const auto device = make_async_device();
  const Noise data;
  const int ranks = world().comm().size();
  Options options;
  options.sync_bn = true;
  options.shards = 2 * ranks;
  options.global_batch = 4 * ranks;
  const RunPlan plan = plan_run(options, {world().comm().rank(), ranks, 1}, data.size(), {});
  const ModelEntry entry{"small", "", data.sample_shape(), false, normalized_layers};
  EXPECT_EQ(
      error_of([&] { make_step_parts(world(), *device, entry, data, options, plan); }),
      "--sync-bn with 2 shards on each rank is for CPU cores: use as many ranks as shards, or "
      "--device cpu");
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
