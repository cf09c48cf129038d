// Synchronised batch norm: the gradients of a step are those of one large batch, by central
// differences of the whole network in double, for any shards and ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "apps/step/training_step.h"
#include "collectives/comm/flight_recorder.h"
#include "tests/mpi/world.h"
#include "tests/support/layer_list.h"
#include "tests/support/layouts.h"
#include "tests/support/test_dataset.h"

namespace lockstep {
namespace {

constexpr int kIn = 5, kHidden = 4, kClasses = 3, kBatch = 24;
constexpr float kOffset = 300, kEpsilon = 0.01f;

/// The samples of one step, so that each step sees all of them.
class Few : public TestDataset {
 public:
  Few() : TestDataset(kBatch, kClasses, {1, 1, 1, kIn}) {}
  std::int32_t label(std::int64_t index) const override {
    return static_cast<std::int32_t>(index * index % kClasses);
  }
  void read(std::int64_t index, Random*, void* out, Type) const override {
    Random random(1, Purpose::generate, 0, static_cast<std::uint32_t>(index));
    // The shards have different means.
    for (int i = 0; i < kIn; ++i)
      static_cast<float*>(out)[i] = random.normal() + static_cast<float>(index % 7);
  }
};

/// The inputs of batch norm are far from 0: mean of squares minus square of mean would lose all
/// digits.
NamedLayers normalized(Shape, int classes) {
  const auto linear = [](int features, float bias) {
    return dense(features, false, {.weight_deviation = 0.5f, .bias = bias});
  };
  return layers_of("in", linear(kHidden, kOffset), "norm", batch_norm({.epsilon = kEpsilon}), "out",
                   linear(classes, 0.1f));
}

struct Outcome {
  Layout layout;
  std::vector<float> parameters, gradients;
  std::string statistics;
};

/// One step of `shards` shards of kBatch samples.
Outcome step(int shards, bool together, const std::string& progress = "auto",
             const std::string& reducer = "auto") {
  const Comm comm = world().comm();
  const auto device = make_cpu_device(1);
  const Few data;
  StepOptions options;
  options.optimizer.ema = 0;
  options.model.sync_bn = together;
  options.schedule.global_batch = kBatch;
  options.schedule.shards = shards;
  options.ranks.bucket_mb = 1e-4;
  options.ranks.progress = progress;
  options.ranks.reducer = reducer;
  const RunPlan plan =
      plan_run(options, shape_of(options, comm.size()), comm.rank(), comm.size(), data.size(), {});
  const ModelEntry entry{"normalized", "", data.sample_shape(), false, normalized};
  TrainingStep step(make_step_parts(world(), *device, entry, data, options, plan), *device,
                    world().flight_recorder().mine(), options, plan);
  LoaderSpec spec = loader_spec(plan);
  spec.held = step.shards_at_once();
  const auto loader = make_loader(*device, data, spec);
  Outcome outcome;
  outcome.layout = step.layout();
  const auto count = static_cast<std::size_t>(step.layout().count);
  const float* parameters = step.sections().front().arena;
  outcome.parameters.assign(parameters, parameters + count);
  step.run(*loader, 0, 0.1f, {});
  outcome.gradients.assign(step.gradients(), step.gradients() + count);
  outcome.statistics = step.statistics();
  return outcome;
}

/// The network in double from the input of batch norm to the mean loss.
class Reference {
 public:
  explicit Reference(const Outcome& of)
      : layout_(of.layout), values_(of.parameters.begin(), of.parameters.end()) {}

  std::vector<double> hidden() const {
    std::vector<double> h(kBatch * kHidden);
    for (int n = 0; n < kBatch; ++n) {
      float x[kIn];
      Few().read(n, nullptr, x, Type::f32);
      for (int j = 0; j < kHidden; ++j) {
        double sum = at("in/biases", j);
        for (int i = 0; i < kIn; ++i) sum += at("in/weights", j * kIn + i) * x[i];
        h[n * kHidden + j] = sum;
      }
    }
    return h;
  }

  double loss() const {
    std::vector<double> h = hidden();
    for (int j = 0; j < kHidden; ++j) {
      const auto [mean, squares] = moments(h, j);
      const double inverse = 1 / std::sqrt(squares / kBatch + kEpsilon);
      for (int n = 0; n < kBatch; ++n) {
        double& value = h[n * kHidden + j];
        value = (value - mean) * inverse * at("norm/gamma", j) + at("norm/beta", j);
      }
    }
    double total = 0;
    for (int n = 0; n < kBatch; ++n) {
      double logits[kClasses], sum = 0;
      for (int k = 0; k < kClasses; ++k) {
        logits[k] = at("out/biases", k);
        for (int j = 0; j < kHidden; ++j)
          logits[k] += at("out/weights", k * kHidden + j) * h[n * kHidden + j];
        sum += std::exp(logits[k]);
      }
      total += std::log(sum) - logits[Few().label(n)];
    }
    return total / kBatch;
  }

  /// The mean of column `j`, and the sum of squared differences from it.
  static std::pair<double, double> moments(const std::vector<double>& h, int j) {
    double mean = 0, squares = 0;
    for (int n = 0; n < kBatch; ++n) mean += h[n * kHidden + j] / kBatch;
    for (int n = 0; n < kBatch; ++n) squares += std::pow(h[n * kHidden + j] - mean, 2);
    return {mean, squares};
  }

  /// By element `i` of all.
  double slope(std::int64_t i) {
    constexpr double kStep = 1e-5;
    double& value = values_[i];
    const double was = value;
    value = was + kStep;
    const double above = loss();
    value = was - kStep;
    const double below = loss();
    value = was;
    return (above - below) / (2 * kStep);
  }

 private:
  double at(const char* name, int i) const {
    return values_[parameter_named(layout_, name).range.begin + i];
  }

  const Layout& layout_;
  std::vector<double> values_;
};

/// The largest difference of a trained parameter's gradient from the reference's.
double error_of_gradients(const Outcome& is) {
  Reference reference(is);
  double worst = 0;
  for (const Parameter& parameter : is.layout.parameters) {
    if (!parameter.trained()) continue;
    for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i)
      worst = std::max(worst, std::abs(is.gradients[i] - reference.slope(i)));
  }
  return worst;
}

/// Numbers of shards that these ranks can share.
std::vector<int> shard_counts() {
  const int ranks = world().comm().size();
  return ranks == 3 ? std::vector{3, 6, 12} : ranks == 4 ? std::vector{4, 8} : std::vector{2, 4, 8};
}

TEST(SynchronizedNorm, HasTheGradientsOfOneLargeBatch) {
  for (const int shards : shard_counts()) {
    SCOPED_TRACE(shards);
    const Outcome is = step(shards, true);
    EXPECT_EQ(is.statistics, "global_batch");
    EXPECT_LT(error_of_gradients(is), 2e-5);
    const Outcome apart = step(shards, false);
    EXPECT_EQ(apart.statistics, "shard");
    EXPECT_GT(error_of_gradients(apart), 1e-3) << "each shard has its own statistics";
  }
}

TEST(SynchronizedNorm, FollowsTheMeanAndVarianceOfTheWholeBatch) {
  for (const int shards : shard_counts()) {
    const Outcome is = step(shards, true);
    const std::vector<double> h = Reference(is).hidden();
    for (int j = 0; j < kHidden; ++j) {
      const auto [mean, squares] = Reference::moments(h, j);
      const auto at = [&](const char* name) {
        return is.gradients[parameter_named(is.layout, name).range.begin + j];
      };
      EXPECT_NEAR(at("norm/mean"), mean, 1e-6 * mean);
      EXPECT_NEAR(at("norm/variance"), squares / (kBatch - 1), 1e-4 * squares / (kBatch - 1));
    }
  }
}

TEST(SynchronizedNorm, IsIdenticalUnderEachPolicyAndReducer) {
  const int shards = shard_counts().back();
  const Outcome wanted = step(shards, true);
  for (const char* progress : {"wait", "poll", "thread"}) {
    for (const char* reducer : {"shared", "tree", "recursive_doubling"}) {
      if (std::strcmp(progress, "thread") == 0 && !world().threads_allowed()) continue;
      if (std::strcmp(reducer, "recursive_doubling") == 0 && world().comm().size() == 3) continue;
      EXPECT_EQ(step(shards, true, progress, reducer).gradients, wanted.gradients)
          << progress << " " << reducer;
    }
  }
}

}  // namespace
}  // namespace lockstep
