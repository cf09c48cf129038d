// The step with a reducer and an optimizer that watch it: each bucket is updated once, when all
// ranks have summed it; votes and totals travel with the gradients.
#include "apps/step/training_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>

#include "collectives/comm/flight_recorder.h"
#include "net/layers.h"

namespace lockstep {
namespace {

const Shape kSample = {1, 2, 2, 8};

NamedLayers two_layers(Shape, int classes) {
  NamedLayers layers;
  layers.emplace_back("hidden", dense(16, true, {}));
  layers.emplace_back("logits", dense(classes, false, {}));
  return layers;
}

const ModelEntry kModel = {"two_layers", "for this test", kSample, false, two_layers};

class Few : public Dataset {
 public:
  std::int64_t size() const override { return 64; }
  int classes() const override { return 5; }
  Shape sample_shape() const override { return kSample; }
  std::int32_t label(std::int64_t index) const override { return static_cast<int>(index % 5); }
  void read(std::int64_t index, Random*, void* out, Type) const override {
    for (std::int64_t i = 0; i < kSample.count(); ++i) {
      static_cast<float*>(out)[i] = static_cast<float>((index * 7 + i * 3) % 11) - 5;
    }
  }
  std::string describe() const override { return "a few"; }
};

/// As if there were `ranks` that all do the same. A bucket is done when it is finished, or at the
/// second look at it.
class Mirrors : public Reducer {
 public:
  Mirrors(std::int64_t count, std::vector<Range> buckets, int ranks)
      : gradients_(count),
        buckets_(std::move(buckets)),
        looks_(buckets_.size(), kIdle),
        ranks_(ranks) {
    traits_ = {.name = "mirrors", .bytes = gradients_.size() * sizeof(float), .canonical = true};
  }

  float* gradients() override { return gradients_.data(); }
  void start(int bucket) override {
    EXPECT_EQ(looks(bucket), kIdle) << "started twice";
    looks(bucket) = 2;
  }
  bool advance() override {
    for (int bucket = 0; bucket < static_cast<int>(buckets_.size()); ++bucket) {
      if (looks(bucket) > 0 && --looks(bucket) == 0) sum(bucket);
    }
    return true;
  }
  bool done(int bucket) const override { return looks_[bucket] == 0; }
  void finish(int bucket) override {
    if (looks(bucket) > 0) sum(bucket);
    looks(bucket) = 0;
  }
  void written(int, Stream&) override {}
  Stream& stream() override { return stream_; }

  /// Whether `range` is one bucket, which is summed; the next step may start it again then.
  bool take(Range range) {
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
      if (buckets_[bucket] == range) return std::exchange(looks_[bucket], kIdle) == 0;
    }
    return false;
  }

 private:
  static constexpr int kIdle = -1;
  int& looks(int bucket) { return looks_[bucket]; }
  void sum(int bucket) {
    const Range range = buckets_[bucket];
    for (std::int64_t i = range.begin; i < range.end(); ++i)
      gradients_[i] *= static_cast<float>(ranks_);
  }

  std::vector<float> gradients_;
  std::vector<Range> buckets_;
  std::vector<int> looks_;  ///< by bucket: until it is done
  int ranks_;
  HostStream stream_;
};

/// parameter -= rate * gradient, noting the ranges.
class Descent : public Optimizer {
 public:
  explicit Descent(std::vector<Range>& updated) : updated_(updated) {}
  std::vector<std::string> slots() const override { return {}; }
  void update(Stream&, const UpdateSpan& span, const TrainingState& state,
              const UpdateRates* now) const override {
    const Range range = span.range;
    updated_.push_back(range);
    for (std::int64_t i = range.begin; i < range.end(); ++i)
      state.parameters[i] -= now->rate * state.gradients[i];
  }

 private:
  std::vector<Range>& updated_;
};

struct Outcome {
  std::vector<float> parameters;
  std::vector<StepTotals> totals;
};

/// Three steps of `ranks` that are alike: each has the same `shards` of `shard_batch` samples.
Outcome train(int ranks, int shards, Policy policy, Votes votes = {}, int shard_batch = 8) {
  const auto device = make_cpu_device(1);
  const Few dataset;
  StepOptions options;
  options.optimizer.ema = 0;
  RunPlan plan;
  plan.seed = 1;
  plan.own_shards = shards;
  plan.shards = ranks * shards;
  plan.shard_batch = shard_batch;
  plan.global_batch = shard_batch * plan.shards;
  plan.dataset_size = dataset.size();

  StepParts parts;
  parts.model = std::make_unique<Model>(*device, kModel, kSample, 5, plan.shard_batch, Type::f32,
                                        /*training=*/true);
  const std::int64_t count = parts.model->layout().count;
  for (std::int64_t begin = 0; begin < count; begin += 64)  // they cut parameters
    parts.buckets.push_back({begin, std::min<std::int64_t>(64, count - begin)});
  const std::vector<Range> buckets = parts.buckets;
  std::vector<Range> updated;
  parts.optimizer = std::make_unique<Descent>(updated);
  auto reducer = std::make_unique<Mirrors>(count, buckets, ranks);
  Mirrors& watched = *reducer;
  parts.reducer = std::move(reducer);
  parts.policy = policy;

  alignas(64) std::byte memory[4096] = {};
  EXPECT_LE(FlightRecorder::bytes(1), sizeof memory);
  FlightRecorder recorder(memory, 0, 1, 0);
  TrainingStep step(std::move(parts), *device, recorder.mine(), options, plan);
  HostLoader loader(dataset, {.seed = 1,
                              .global_batch = shard_batch * shards,
                              .shards = shards,
                              .first_shard = 0,
                              .own_shards = shards,
                              .type = Type::f32});
  Outcome outcome;
  for (int n = 0; n < 3; ++n) {
    outcome.totals.push_back(step.run(loader, n, 0.1f, votes));
    std::int64_t elements = Layout::kHeader;  // of no parameter: never updated
    for (const Range& range : updated) elements += range.count;
    EXPECT_EQ(elements, count) << "each element once";
    updated.clear();
    for (const Range& bucket : buckets) EXPECT_TRUE(watched.take(bucket)) << "summed once";
  }
  const float* parameters = step.state().parameters;
  outcome.parameters.assign(parameters, parameters + count);
  return outcome;
}

TEST(TrainingStep, RanksThatAreAlikeTrainAsOneOfThem) {
  const Outcome alone = train(1, 2, Policy::wait);
  EXPECT_NEAR(alone.totals[0].cross_entropy, std::log(5.0), 1);
  EXPECT_LT(alone.totals[2].cross_entropy, alone.totals[0].cross_entropy);
  for (const Policy policy : {Policy::wait, Policy::poll, Policy::thread}) {
    for (const int ranks : {1, 4}) {  // a power of two: scaling is exact
      const Outcome outcome = train(ranks, 2, policy);
      EXPECT_EQ(outcome.parameters, alone.parameters) << ranks;
      for (std::size_t n = 0; n < 3; ++n) {
        EXPECT_EQ(outcome.totals[n].cross_entropy, alone.totals[n].cross_entropy);
        EXPECT_EQ(outcome.totals[n].top1_share, alone.totals[n].top1_share);
      }
    }
  }
}

TEST(TrainingStep, ShardsAreAddedUp) {
  const Outcome one = train(1, 1, Policy::poll, {}, 24);
  const Outcome three = train(1, 3, Policy::poll, {}, 8);
  for (std::size_t i = 0; i < one.parameters.size(); ++i)
    ASSERT_NEAR(three.parameters[i], one.parameters[i], 1e-5) << i;
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_NEAR(three.totals[n].cross_entropy, one.totals[n].cross_entropy, 1e-5);
    EXPECT_EQ(three.totals[n].top1_share, one.totals[n].top1_share);
  }
}

TEST(TrainingStep, VotesTravelWithTheGradientsHoweverManyShardsARankHas) {
  for (const int shards : {1, 3}) {
    for (const bool stop : {false, true}) {
      for (const bool save : {false, true}) {
        for (const StepTotals& totals : train(2, shards, Policy::poll, {stop, save}).totals) {
          EXPECT_EQ(totals.stop, stop);
          EXPECT_EQ(totals.save, save);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
