// Runs whose dense layers send factors have the weights and gradients of runs that send gradients,
// bit for bit.
#include "apps/step/factor_reducer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "apps/step/training_step.h"
#include "collectives/comm/flight_recorder.h"
#include "net/layers.h"
#include "tests/mpi/world.h"
#include "tests/support/wrapped_device.h"

namespace lockstep {
namespace {

constexpr int kSteps = 3;

class Noise : public Dataset {
 public:
  std::int64_t size() const override { return 60; }
  int classes() const override { return 10; }
  Shape sample_shape() const override { return {1, 8, 8, 3}; }
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index % 10);
  }
  void read(std::int64_t index, Random*, void* out, Type type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    dispatch(type, [&]<class T>(T*) {
      std::generate_n(static_cast<T*>(out), sample_shape().count(),
                      [&] { return static_cast<float>(random.normal()); });
    });
  }
  std::string describe() const override { return "noise"; }
};

/// The last layer is long enough for factors too, and has a gap behind its biases.
NamedLayers layers_of(Shape, int classes) {
  const AffineInit init{.weight_deviation = 0.1f, .bias = 0.1f, .l2 = 0.01f};
  NamedLayers layers;
  layers.emplace_back("conv", convolution(8, 3, false, init));
  layers.emplace_back("norm", batch_norm());
  layers.emplace_back("first", dense(16, true, init));
  layers.emplace_back("wide", dense(700, true, init));
  layers.emplace_back("frozen", dense(40, true, {.weight_deviation = 0.1f, .frozen = true}));
  layers.emplace_back("plain", dense(33, true, {.weight_deviation = 0.1f, .biases = false}));
  layers.emplace_back("logits", dense(classes, false, init));
  return layers;
}

struct Case {
  std::string reducer = "auto";
  int shards_of_each = 2;
  std::function<void(StepOptions&)> change = {};
  std::string policy = "auto";
  int ranks_of_a_host = 0;  ///< 0: those that there are
  std::string arithmetic = "portable";
  int threads = 1;
};

struct Outcome {
  ReducerTraits reducer;
  std::vector<std::vector<float>> arenas;  ///< of the state, and the last gradients
};

/// The ranks of `c` as if so many were on each host.
std::vector<std::uint64_t> hosts_of(const Comm& comm, int ranks_of_a_host) {
  std::vector<std::uint64_t> hosts;
  for (int rank = 0; rank < comm.size(); ++rank)
    hosts.push_back(rank / ranks_of_a_host * ranks_of_a_host);
  return hosts;
}

void pretend(StepParts& parts, const Case& c, Device& device, const StepOptions& options,
             const RunPlan& plan) {
  const auto hosts = hosts_of(parts.comm, c.ranks_of_a_host);
  auto layers = choose_factors(parts.comm, hosts, device, *parts.model, plan.shares, {});
  std::vector<Range> others = parts.buckets;
  std::erase_if(others, [&](const Range& bucket) {
    return std::ranges::count(layers, bucket, &FactorLayer::range) > 0;
  });
  const auto count = parts.model->layout().count;
  auto inner =
      make_reducer("direct", reducer_spec(parts.comm, device, options, plan, count, others));
  parts.reducer = std::make_unique<FactorReducer>(
      std::move(inner), std::move(layers), parts.buckets, parts.comm, hosts, device, plan.shares);
}

Outcome train(const Case& c) {
  const Comm comm = world().comm();
  const auto device = make_cpu_device(c.threads, "auto", "auto", c.arithmetic);
  const Noise data;
  StepOptions options;
  options.schedule.seed = 3;
  options.schedule.shards = c.shards_of_each * comm.size();
  options.schedule.global_batch = 2 * options.schedule.shards;
  options.ranks.bucket_mb = 0.01;
  options.ranks.reducer = c.reducer;
  if (c.change) c.change(options);
  const RunPlan plan =
      plan_run(options, shape_of(options, comm.size()), comm.rank(), comm.size(), data.size(), {});
  const ModelEntry entry{"small", "", data.sample_shape(), false, layers_of};
  StepParts parts = make_step_parts(world(), *device, entry, data, options, plan);
  if (c.ranks_of_a_host > 0 && comm.size() > 1) pretend(parts, c, *device, options, plan);
  parts.policy = choose_policy(c.policy, *parts.reducer, world().threads_allowed());
  LoaderSpec spec = loader_spec(plan);
  spec.type = parts.model->input_type();
  spec.held = plan.shards_at_once;
  const auto loader = make_loader(*device, data, spec);
  TrainingStep step(std::move(parts), *device, world().flight_recorder().mine(), options, plan);
  for (int n = 0; n < kSteps; ++n) step.run(*loader, n, 0.05f, {});
  Outcome outcome{step.reducer().traits(), {}};
  for (const Section& section : step.sections())
    outcome.arenas.emplace_back(section.arena, section.arena + step.layout().count);
  outcome.arenas.emplace_back(step.gradients(), step.gradients() + step.layout().count);
  return outcome;
}

void expect_same(const Outcome& is, const Outcome& wanted, const std::string& name) {
  ASSERT_EQ(is.arenas.size(), wanted.arenas.size()) << name;
  for (std::size_t arena = 0; arena < is.arenas.size(); ++arena) {
    EXPECT_EQ(std::memcmp(is.arenas[arena].data(), wanted.arenas[arena].data(),
                          is.arenas[arena].size() * sizeof(float)),
              0)
        << name << ", arena " << arena;
  }
}

/// With factors, also as if so many ranks were on each host, and without.
void expect_same_bits(Case c, const std::string& name, std::initializer_list<int> on_hosts = {}) {
  const Outcome wanted = train(c);
  EXPECT_FALSE(mentions(wanted.reducer.description, {"factors of"})) << "one host needs none";
  c.reducer = "factors";
  const Outcome sent = train(c);
  expect_same(sent, wanted, name);
  if (world().comm().size() == 1) return;
  EXPECT_TRUE(mentions(sent.reducer.description, {"; factors of logits, plain, wide, first"}));
  EXPECT_TRUE(sent.reducer.calls_mpi) << "for --progress";
  // The factors, and products that wait for a neighbour.
  const int shards = c.shards_of_each * world().comm().size();
  const std::size_t factors = shards * (192 + 256 + 1472 + 1088), product = 17 * 700;
  const std::size_t most = std::bit_width(static_cast<unsigned>(shards));
  EXPECT_GT(sent.reducer.bytes, wanted.reducer.bytes + factors * sizeof(float));
  EXPECT_LT(sent.reducer.bytes,
            wanted.reducer.bytes + (2 * factors + (most + 2) * product) * sizeof(float));
  for (const int ranks : on_hosts) {
    c.ranks_of_a_host = ranks;
    expect_same(train(c), wanted, fmt::format("{} with {} on a host", name, ranks));
  }
}

TEST(FactorReducer, AnySharesGiveTheSameBits) {
  for (const int shards : {1, 2, 3})
    expect_same_bits({.shards_of_each = shards}, "shards", {shards});
  expect_same_bits({.shards_of_each = 3,
                    .change =
                        [](StepOptions& options) {
                          const int ranks = world().comm().size();
                          std::vector<int>& shares = options.ranks.shares_of_ranks;
                          shares.assign(ranks, 3);
                          if (ranks == 1) return;
                          ++shares.front();
                          --shares.back();
                        }},
                   "uneven shares", {1});
}

TEST(FactorReducer, EveryKindOfStepGivesTheSameBits) {
  const std::vector<std::pair<std::string, std::function<void(StepOptions&)>>> changes = {
      {"sync batch norm", [](auto& options) { options.model.sync_bn = true; }},
      {"clip norm", [](auto& options) { options.optimizer.clip_norm = 0.05f; }},
      {"loss scale", [](auto& options) { options.optimizer.loss_scale = "dynamic:65536:2"; }},
      {"layerwise", [](auto& options) { options.optimizer.name = "lamb"; }},
      {"average", [](auto& options) { options.optimizer.ema = 0.9f; }},
  };
  for (const auto& [name, change] : changes) expect_same_bits({.change = change}, name);
}

TEST(FactorReducer, EveryPolicyAndThreadGivesTheSameBits) {
  const Outcome wanted = train({});
  for (const char* policy : {"wait", "poll", "thread"}) {
    if (policy == std::string("thread") && !world().threads_allowed()) continue;
    expect_same(train({.reducer = "factors", .policy = policy}), wanted, policy);
  }
  expect_same(train({.reducer = "factors", .threads = 3}), wanted, "threads");
}

TEST(FactorReducer, OneDnnGivesTheSameBits) { expect_same_bits({.arithmetic = "fast"}, "fast"); }

TEST(FactorReducer, Bf16SendsNoFactors) {
  const auto device = make_cpu_device(1);
  if (!device->traits().computes(Type::bf16)) GTEST_SKIP() << "skipped: no bf16";
  const Outcome outcome = train({.reducer = "factors", .change = [](StepOptions& options) {
                                   options.model.precision = Type::bf16;
                                 }});
  EXPECT_FALSE(mentions(outcome.reducer.description, {"factors of"}));
}

TEST(FactorReducer, AFrozenGroupSendsNoFactors) {
  if (world().comm().size() == 1) return;
  const Outcome outcome = train({.reducer = "factors", .change = [](StepOptions& options) {
                                   options.optimizer.groups = {{"wide/*", 0, {}}};
                                 }});
  EXPECT_TRUE(mentions(outcome.reducer.description, {"; factors of logits, plain, first"}));
  EXPECT_FALSE(mentions(outcome.reducer.description, {"wide"}));
}

/// A device whose dense layers compute another gradient than others do.
class Deviating : public WrappedDevice {
 public:
  std::unique_ptr<AffinePlan> dense(const DenseSpec& spec) override {
    return std::make_unique<Plan>(WrappedDevice::dense(spec));
  }

 private:
  class Plan : public AffinePlan {
   public:
    explicit Plan(std::unique_ptr<AffinePlan> plan) : plan_(std::move(plan)) {}
    void forward(Stream& s, View x, View w, View b, View y, void* scratch) override {
      plan_->forward(s, x, w, b, y, scratch);
    }
    void backward_data(Stream& s, View dy, View w, View dx, void* scratch) override {
      plan_->backward_data(s, dy, w, dx, scratch);
    }
    void backward_weights(Stream& s, View x, View dy, View dw, View db, void* scratch) override {
      plan_->backward_weights(s, x, dy, dw, db, scratch);
      float& last = dw.as<float>()[dw.count() - 1];
      last = std::nextafter(last, 2.0f);
    }
    std::size_t scratch_bytes() const override { return plan_->scratch_bytes(); }
    std::string implementation() const override { return plan_->implementation(); }

   private:
    std::unique_ptr<AffinePlan> plan_;
  };
};

/// The layers that send factors.
std::string chosen(const std::vector<std::uint64_t>& hosts, const std::optional<Link>& link,
                   bool deviates = false) {
  const Comm comm = world().comm();
  const std::unique_ptr<Device> device =
      deviates ? std::make_unique<Deviating>() : std::make_unique<WrappedDevice>();
  const Noise data;
  const ModelEntry entry{"small", "", data.sample_shape(), false, layers_of};
  const Model model(*device, entry, data.sample_shape(), 10, 2, Type::f32, /*training=*/true);
  std::string names;
  const Shares shares(std::vector<int>(comm.size(), 1));
  for (const auto& layer : choose_factors(comm, hosts, *device, model, shares, link))
    names += layer.name + " ";
  return names;
}

TEST(ChooseFactors, ByTheLinkBetweenHosts) {
  const Comm comm = world().comm();
  const Link slow{.latency = 1e-6, .bandwidth = 1e4}, fast{.latency = 1e-6, .bandwidth = 1e13};
  EXPECT_EQ(chosen(hosts_of(comm, comm.size()), slow), "");
  if (comm.size() == 1) return;
  EXPECT_EQ(chosen(hosts_of(comm, 1), slow),
            comm.size() < 4 ? "logits plain wide first " : "plain wide first ");
  EXPECT_EQ(chosen(hosts_of(comm, 1), fast), "");
}

TEST(ChooseFactors, LeavesOutProductsThatRanksComputeDifferently) {
  const Comm comm = world().comm();
  const auto hosts = hosts_of(comm, 1);
  EXPECT_EQ(chosen(hosts, {}), "logits plain wide first ");
  EXPECT_EQ(chosen(hosts, {}, comm.rank() == 0),
            comm.size() == 1 ? "logits plain wide first " : "");
}

}  // namespace
}  // namespace lockstep
