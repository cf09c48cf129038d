// The training step on an asynchronous device is bitwise identical to the CPU's: ahead of the
// device, staged through the host, summed in streams, and repeated as a graph.
#include "apps/step/training_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "collectives/comm/flight_recorder.h"
#include "net/layers.h"
#include "tests/mpi/world.h"
#include "tests/support/async_device.h"
#include "tests/support/layer_list.h"
#include "tests/support/nccl_double.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

/// The third one is captured, and steps 7 and 11 carry a vote.
constexpr int kSteps = 12;

/// Sixty images of noise.
class Noise : public TestDataset {
 public:
  Noise() : TestDataset(60, 10, {1, 24, 24, 3}) {}
  void read(std::int64_t index, Random*, void* out, Type type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    dispatch(type, [&]<class T>(T*) {
      for (std::int64_t i = 0; i < sample_shape().count(); ++i)
        static_cast<T*>(out)[i] = static_cast<float>(random.normal());
    });
  }
};

/// One layer of each kind, small enough for many steps.
NamedLayers small_layers(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  return layers_of("conv", convolution(8, 3, true, init), "norm", response_norm(2, 1, 0.1f, 0.75f),
                   "pool", max_pool(3, 2, true), "hidden", dense(16, true, init), "logits",
                   dense(classes, false, init));
}

/// With batch norm, and a layer before it that needs a gradient through the statistics.
NamedLayers normalized_layers(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  return layers_of("conv", convolution(8, 3, false, init), "norm", batch_norm(), "pool",
                   max_pool(3, 2, true), "dropout", dropout(0.1f), "hidden", dense(16, false, init),
                   "norm2", batch_norm(), "relu", relu(), "logits", dense(classes, false, init));
}

/// Its parameters do not depend on the size of the images.
NamedLayers sized_layers(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  return layers_of("conv", convolution(8, 3, false, init), "norm", batch_norm(), "relu", relu(),
                   "conv2", convolution(8, 3, true, init), "pool", global_average_pool(), "hidden",
                   dense(256, true, init), "logits", dense(classes, false, init));
}

/// The result of a run.
struct Outcome {
  std::vector<StepTotals> totals;
  std::vector<std::vector<float>> arenas;
  std::string policy;
  int most_ahead = 0;  ///< most steps under way at once
};

/// How a run differs from the default.
struct Variant {
  bool no_graph = false;
  NcclPlan nccl = {};     ///< of the double
  bool together = false;  ///< one shard on each rank, with synchronised batch norm
  std::function<void(StepOptions&)> change = {};
  /// Use the double of NCCL, not what the registry contains.
  bool nccl_double = true;
  /// Each rank trains alone, with the shards of all.
  bool alone = false;
  /// Progressive resizing, of layers for any size.
  ImageStages small_images = {};
};

/// kSteps steps, two shards for each rank; two of the steps with a vote.
Outcome train(Device& device, const std::string& reducer, const std::string& progress,
              const Variant& variant = {}) {
  const Comm all = world().comm(), comm = variant.alone ? alone_of(all) : all;
  const bool own = variant.nccl_double && reducer == "nccl";
  const Noise data;
  StepOptions options;
  options.schedule.seed = 3;
  options.schedule.shards = (variant.together ? 1 : 2) * all.size();
  options.schedule.global_batch = 2 * options.schedule.shards;
  options.optimizer.ema = 0.99f;
  options.ranks.bucket_mb = 0.01;
  options.ranks.reducer = own || variant.alone ? "shared" : reducer;
  options.device.no_graph = variant.no_graph;
  options.model.sync_bn = variant.together;
  options.model.small_images = variant.small_images;
  if (variant.change) variant.change(options);
  const auto plan_on = [&](const Comm& ranks) {
    return plan_run(options, shape_of(options, ranks.size()), ranks.rank(), ranks.size(),
                    data.size(), {});
  };
  const RunPlan plan = plan_on(comm);
  const auto build = variant.together               ? normalized_layers
                     : variant.small_images.empty() ? small_layers
                                                    : sized_layers;
  const ModelEntry entry{"small", "", data.sample_shape(), false, build};
  StepParts parts = make_step_parts(world(), device, entry, data, options, plan_on(all));
  NcclDouble library(comm, device, variant.nccl), another(comm, device, variant.nccl);
  const ReducerSpec spec =
      reducer_spec(comm, device, options, plan, parts.model->layout().count, parts.buckets);
  if (variant.alone) parts.reducer = make_reducer(reducer, spec);
  if (own) {
    parts.reducer = make_nccl_reducer(spec, library);
    const std::vector<Range> places = buckets_of_statistics(parts.model->layout());
    if (variant.together) {
      parts.sync_bn = std::make_unique<SyncBatchNorm>(
          device, make_nccl_reducer(statistics_spec(comm, device, options, plan, places), another),
          places, plan.own(), plan.shards, world().flight_recorder().mine());
    }
  }
  parts.policy = choose_policy(progress, *parts.reducer, world().threads_allowed());
  EXPECT_GT(parts.buckets.size(), 2u);
  // Outlives the steps that read from it.
  LoaderSpec batches = loader_spec(plan);
  batches.type = parts.model->input_type();
  batches.mixing = options.data.mixing;
  const auto loader = make_loader(device, data, batches);
  TrainingStep step(std::move(parts), device, world().flight_recorder().mine(), options, plan);
  Outcome outcome;
  for (int n = 0; n < kSteps; ++n) {
    const Votes votes{n == 7 && comm.rank() == 0, n == 11 && comm.rank() == comm.size() - 1};
    step.enqueue(*loader, n, 0.05f / static_cast<float>(n + 1), votes);
    const int ahead = n + 1 - static_cast<int>(outcome.totals.size());
    outcome.most_ahead = std::max(outcome.most_ahead, ahead);
    while (const auto totals = step.collect()) outcome.totals.push_back(*totals);
  }
  while (const auto totals = step.collect(true)) outcome.totals.push_back(*totals);
  for (const Section& section : step.sections())
    outcome.arenas.emplace_back(section.arena, section.arena + step.layout().count);
  return outcome;
}

void expect_same_arenas(const Outcome& is, const Outcome& wanted) {
  ASSERT_EQ(is.arenas.size(), wanted.arenas.size());
  for (std::size_t arena = 0; arena < is.arenas.size(); ++arena) {
    EXPECT_EQ(std::memcmp(is.arenas[arena].data(), wanted.arenas[arena].data(),
                          is.arenas[arena].size() * sizeof(float)),
              0)
        << "arena " << arena;
  }
}

void expect_same(const Outcome& is, const Outcome& wanted) {
  ASSERT_EQ(is.totals.size(), wanted.totals.size());
  for (std::size_t n = 0; n < is.totals.size(); ++n) {
    EXPECT_EQ(is.totals[n].cross_entropy, wanted.totals[n].cross_entropy) << "step " << n;
    EXPECT_EQ(is.totals[n].top1_share, wanted.totals[n].top1_share) << "step " << n;
    EXPECT_EQ(is.totals[n].stop, n == 7) << "step " << n;
    EXPECT_EQ(is.totals[n].save, n == 11) << "step " << n;
  }
  expect_same_arenas(is, wanted);
}

Outcome on_the_cpu(const Variant& variant = {}) {
  return train(*make_cpu_device(1), "shared", "poll", variant);
}

/// In streams, the steps that a graph repeats are those without one. Returns these.
Outcome expect_one_graph(const Variant& variant = {}) {
  int graphs = 0;
  const Outcome eager = train(*make_async_device({.captures = false}), "nccl", "auto", variant),
                repeated =
                    train(*make_async_device({.captured = &graphs}), "nccl", "auto", variant);
  EXPECT_EQ(graphs, 1);
  expect_same(repeated, eager);
  return eager;
}

/// Skips a test of what is alike on any number of ranks, except on two.
#define ON_TWO_RANKS() \
  if (world().comm().size() != 2) GTEST_SKIP() << "two ranks test it"

TEST(TrainingStep, OnTheCpuTotalsAreReadyAtOnce) {
  const Outcome outcome = on_the_cpu();
  EXPECT_EQ(outcome.most_ahead, 1);
  EXPECT_EQ(outcome.totals.size(), static_cast<std::size_t>(kSteps));
  EXPECT_NE(outcome.totals.back().cross_entropy, outcome.totals.front().cross_entropy);
  expect_same(outcome, outcome);  // finite: a NaN is not the same as itself
}

/// One rank with the shards of all gives the same bits.
TEST(TrainingStep, AheadAndStagedItGivesTheCpusBits) {
  const auto device = make_async_device();
  const Outcome wanted = on_the_cpu({.alone = true});
  expect_same(on_the_cpu(), wanted);
  const Outcome staged = train(*device, "shared", "poll");
  EXPECT_EQ(staged.most_ahead, device->traits().run_ahead + 1);
  expect_same(staged, wanted);
  expect_same(train(*device, "tree", "auto"), wanted);
}

TEST(TrainingStep, WithGroupsNormsAndMixedImagesItGivesTheCpusBits) {
  ON_TWO_RANKS();
  for (const char* optimizer : {"lars", "lamb", "muon"}) {
    const Variant variant{.change = [optimizer](StepOptions& options) {
      options.optimizer.name = optimizer;
      options.optimizer.weight_decay = 0.01f;
      options.optimizer.groups = {{"conv/*", 0.5f, 0.0f}, {"hidden/weights", 0, {}}};
      options.optimizer.clip_norm = 0.5f;
      options.optimizer.loss.LabelSmoothing::value = 0.1f;
      options.data.mixing = {4, 0.5f};
    }};
    const Outcome wanted = on_the_cpu(variant);
    expect_same(wanted, wanted);  // finite
    expect_same(train(*make_async_device(), "shared", "auto", variant), wanted);
    if (world().threads_allowed()) expect_one_graph(variant);
  }
}

TEST(TrainingStep, WithEveryOptimizerItGivesTheCpusBits) {
  ON_TWO_RANKS();
  for (const OptimizerEntry& entry : optimizers()) {
    for (const float ema : {0.0f, 0.99f}) {
      SCOPED_TRACE(fmt::format("{} with an average of {}", entry.name, ema));
      const Variant variant{.change = [&](StepOptions& options) {
        options.optimizer.name = entry.name;
        if (entry.name == "sgd" && ema == 0) options.optimizer.own = {{"momentum", 0.9f}};
        options.optimizer.weight_decay = 0.01f;
        options.optimizer.ema = ema;
      }};
      const Outcome wanted = on_the_cpu(variant);
      // Each in one of the two ways, sgd in that which the other tests leave out.
      const bool repeated = (entry.name == "sgd") == (ema == 0);
      if (!repeated || !world().threads_allowed()) {
        expect_same(train(*make_async_device(), "shared", "auto", variant), wanted);
        continue;
      }
      int graphs = 0;  // layerwise optimizers step beside the sums
      expect_same(train(*make_async_device({.captured = &graphs}), "nccl", "auto", variant),
                  wanted);
      EXPECT_EQ(graphs, 1);
    }
  }
}

TEST(TrainingStep, OneRankNeedsNoNcclForAGraph) {
  if (world().comm().size() > 1 || !world().threads_allowed()) GTEST_SKIP();
  int graphs = 0;
  expect_same(train(*make_async_device({.captured = &graphs}), "auto", "auto"), on_the_cpu());
  EXPECT_EQ(graphs, 1);
}

TEST(TrainingStep, RepeatedAsAGraphItGivesTheSameBits) {
  if (world().comm().size() > 3) GTEST_SKIP() << "three ranks test it";
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  const Outcome eager = expect_one_graph();
  int graphs = 0;
  expect_same(train(*make_async_device({.captured = &graphs}), "nccl", "auto", {.no_graph = true}),
              eager);
  EXPECT_EQ(graphs, 0) << "LOCKSTEP_GRAPH=off";
  // MPI's order of addition makes no difference for two numbers.
  if (world().comm().size() <= 2) expect_same(eager, on_the_cpu());
}

TEST(TrainingStep, SyncBatchNormGivesTheCpusBitsInStreamsToo) {
  if (world().comm().size() > 3) GTEST_SKIP() << "three ranks test it";
  const Variant together{.together = true};
  const Outcome wanted = on_the_cpu(together);
  expect_same(train(*make_async_device(), "shared", "poll", together), wanted);
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  const Outcome eager = expect_one_graph(together);
  if (world().comm().size() <= 2) expect_same(eager, wanted);
}

TEST(TrainingStep, WithSmallImagesItGivesTheCpusBits) {
  ON_TWO_RANKS();
  for (const bool syncs : {false, true}) {
    Variant small{.small_images = {{8, 0.3}, {16, 0.7}}}, whole{.small_images = {{8, 1e-9}}};
    small.change = whole.change = [=](StepOptions& options) {
      options.model.sync_bn = syncs;
      if (syncs) options.schedule.shards /= 2;
    };
    const Outcome wanted = on_the_cpu(small), large = on_the_cpu(whole);
    expect_same(wanted, wanted);  // finite
    EXPECT_NE(wanted.totals.back().cross_entropy, large.totals.back().cross_entropy);
    expect_same(train(*make_async_device(), "shared", "auto", small), wanted);
    if (!world().threads_allowed() || syncs) continue;
    int graphs = 0;
    expect_same(train(*make_async_device({.captured = &graphs}), "nccl", "auto", small), wanted);
    EXPECT_EQ(graphs, 3) << "one for each size";
  }
}

TEST(TrainingStep, SyncBatchNormWithSeveralShardsNeedsMemoryOfTheHost) {
  const auto device = make_async_device();
  const Noise data;
  const int ranks = world().comm().size();
  StepOptions options;
  options.model.sync_bn = true;
  options.schedule.shards = 2 * ranks;
  options.schedule.global_batch = 4 * ranks;
  const RunPlan plan =
      plan_run(options, shape_of(options, ranks), world().comm().rank(), ranks, data.size(), {});
  const ModelEntry entry{"small", "", data.sample_shape(), false, normalized_layers};
  expect_error({"--sync-bn", "2 shards", "--device cpu"},
               [&] { make_step_parts(world(), *device, entry, data, options, plan); });
}

TEST(TrainingStep, ItsReducerFollowsTheOptions) {
  const Comm comm = world().comm();
  const auto device = make_async_device();
  StepOptions options;
  options.device.deterministic = true;
  options.ranks.nccl_max_ctas = 8;
  RunPlan plan;
  plan.shares = choose_shares(comm.size(), comm.size());
  const auto make = [&](NcclDouble& library) {
    return make_nccl_reducer(reducer_spec(comm, *device, options, plan, 32, {{0, 16}, {16, 16}}),
                             library);
  };
  {
    NcclDouble library(comm, *device);
    const auto reducer = make(library);
    EXPECT_EQ(library.max_ctas, 8);
    EXPECT_TRUE(library.deterministic);
    EXPECT_TRUE(mentions(reducer->traits().description, {"deterministic, at most 8 CTAs"}));
  }
  {
    NcclDouble library(comm, *device);
    const ReducerSpec few = statistics_spec(comm, *device, options, plan, {{0, 16}, {16, 8}});
    EXPECT_EQ(few.count, 24);
    EXPECT_TRUE(few.one_by_one);
    make_nccl_reducer(few, library);
    EXPECT_EQ(library.max_ctas, 1) << "of sums of statistics";
  }
  NcclDouble library(comm, *device, {.connects = comm.rank() != 0});
  options.ranks.timeout = 0.05;
  expect_agreed_error({"within 0.05 s"}, [&] { make(library); });
}

/// The double's abort hangs while a graph contains a sum.
TEST(TrainingStep, AnErrorOfNcclEndsTheRunWithItsCause) {
  ON_TWO_RANKS();
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  for (const int sums : {0, 4, 20}) {  // in an eager step, and in one that is repeated
    for (const bool together : {false, true}) {
      expect_error({"unhandled cuda error"}, [&] {
        train(*make_async_device(), "nccl", "auto",
              {.nccl = {.sums_until_error = sums}, .together = together});
      });
    }
  }
}

TEST(TrainingStep, ASumThatNcclRefusesEndsTheRunWithItsCause) {
  ON_TWO_RANKS();
  if (!world().threads_allowed()) GTEST_SKIP() << "skipped: no MPI_THREAD_MULTIPLE";
  for (const int sums : {0, 4, 8, 11}) {  // in an eager step, and in one that is captured
    expect_error({"refused"}, [&] {
      train(*make_async_device(), "nccl", "auto", {.nccl = {.sums_until_refusal = sums}});
    });
  }
}

}  // namespace
}  // namespace lockstep
