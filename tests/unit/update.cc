// update() around an optimizer: parameters only, decay of weights only, the average, parts of a
// range, any number of threads. And clipping and the penalty.
#include <gtest/gtest.h>

#include <cmath>

#include "net/clip.h"
#include "net/optimizer.h"
#include "tests/support/expect_error.h"
#include "tests/unit/optimizer_arenas.h"

namespace lockstep {
namespace {

constexpr float kDecay = 0.25f;

double squares(const std::vector<float>& values, Range range) {
  double sum = 0;
  for (std::int64_t i = range.begin; i < range.end(); ++i) sum += std::pow(values[i], 2);
  return sum;
}

TEST(Update, StepsEveryParameterWithItsOwnDecayAndMovesItsAverage) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {{"momentum", 0.9f}});
  Arenas before(layout, *sgd, kDecay);
  before.fill(layout);
  for (std::size_t i = 0; i < Layout::kHeader; ++i) before.gradients[i] = 1;  // the mail
  Arenas after = before;
  after.step(layout, *sgd, rates_of(*sgd, 0, 0.1));
  std::vector<bool> touched(layout.count);
  for (const Parameter& parameter : layout.parameters) {
    const double decay = parameter.l2 + (parameter.shape.rank() > 1 ? 0.25 : 0);
    for (std::int64_t at = parameter.range.begin; at < parameter.range.end(); ++at) {
      const auto i = static_cast<std::size_t>(at);
      touched[i] = true;
      const double p = before.parameters[i];
      const double m = 0.9f * before.slots[0][i] + before.gradients[i] + decay * p;
      const double stepped = p - 0.1f * m;
      ASSERT_NEAR(after.slots[0][i], m, 2e-6) << parameter.name;
      ASSERT_NEAR(after.parameters[i], stepped, 2e-6) << parameter.name;
      ASSERT_NEAR(after.average[i], 0.9 * before.average[i] + 0.1 * stepped, 2e-6)
          << parameter.name;
    }
  }
  for (std::size_t i = 0; i < touched.size(); ++i) {
    if (touched[i]) continue;
    for (const auto* arena : {&after.parameters, &after.slots[0], &after.average})
      EXPECT_EQ((*arena)[i], 0) << "mail or gap at " << i;
  }
  EXPECT_EQ(after.gradients, before.gradients);
}

TEST(Update, IsBitwiseIdenticalInPartsAndOnThreads) {
  const Layout layout = small_layout();
  for (const OptimizerEntry& entry : optimizers()) {
    const auto optimizer = make_optimizer(entry.name, {});
    Arenas whole(layout, *optimizer, kDecay);
    whole.fill(layout);
    Arenas parts = whole, threads = whole;
    HostStream one, three(3);
    const UpdateRates now = rates_of(*optimizer, 4);
    update(one, layout, {0, layout.count}, *optimizer, whole.state(), &now);
    update(three, layout, {0, layout.count}, *optimizer, threads.state(), &now);
    EXPECT_TRUE(whole == threads) << entry.name;
    if (optimizer->layerwise()) {
      expect_error({"parameter"}, [&] {
        update(one, layout, {0, 48}, *optimizer, parts.state(), &now);
      });
      continue;
    }
    // Parts that begin and end within a parameter too.
    const std::int64_t cuts[] = {0, 48, 4096 + 16, layout.layers[0].end(), layout.count};
    for (int i = 0; i < 4; ++i) {
      EXPECT_FALSE(whole == parts) << entry.name;
      update(one, layout, {cuts[i], cuts[i + 1] - cuts[i]}, *optimizer, parts.state(), &now);
    }
    EXPECT_TRUE(whole == parts) << entry.name;
  }
}

TEST(Update, NeedsNoAverage) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {});
  Arenas before(layout, *sgd);
  before.fill(layout);
  Arenas with = before, without = before;
  TrainingState state = without.state();
  state.average = nullptr;
  HostStream stream;
  const UpdateRates now = rates_of(*sgd, 0);
  with.step(layout, *sgd, now);
  update(stream, layout, {0, layout.count}, *sgd, state, &now);
  EXPECT_EQ(without.average, before.average);
  EXPECT_NE(without.parameters, before.parameters);
  EXPECT_EQ(without.parameters, with.parameters);
}

TEST(Clip, ScalesAllGradientsDownToTheirLimitTogether) {
  const Layout layout = lay_out({{"two/weights", {3, 70001}, 0.5f},
                                 {"two/biases", {3}},
                                 {"norm/mean", {4}, 0, /*follow=*/0.1f}});
  const auto device = make_cpu_device(1);
  const auto sgd = make_optimizer("sgd", {});
  Arenas before(layout, *sgd);
  before.fill(layout);
  double trained = 0;
  for (const Parameter& parameter : layout.parameters)
    if (parameter.trained()) trained += squares(before.gradients, parameter.range);
  const double norm = std::sqrt(trained);
  HostStream one, three(3);
  for (const double limit : {norm / 4, norm * 1.001}) {
    const GradientClip clip(*device, layout, static_cast<float>(limit));
    UpdateRates now = rates_of(*sgd, 0, 1), same = now;
    clip.enqueue(one, before.gradients.data(), &now);
    clip.enqueue(three, before.gradients.data(), &same);
    EXPECT_EQ(now.scale, same.scale) << "on several threads";
    EXPECT_NEAR(now.scale, limit < norm ? 0.25 : 1, 1e-6);
    Arenas after = before;
    after.step(layout, *sgd, now);
    const auto i = static_cast<std::size_t>(layout.parameters[0].range.begin);
    EXPECT_NEAR(after.parameters[i],
                before.parameters[i] - now.scale * before.gradients[i] - 0.5 * before.parameters[i],
                1e-6);
  }
}

TEST(Average, WarmsUpAsTheTutorialsDoes) {
  EXPECT_FLOAT_EQ(average_decay(0.9999f, 0), 0.1f);
  EXPECT_FLOAT_EQ(average_decay(0.9999f, 1), 2 / 11.0f);
  EXPECT_FLOAT_EQ(average_decay(0.9999f, 90), 0.91f);
  EXPECT_LT(average_decay(0.9999f, 80000), 0.9999f);
  EXPECT_EQ(average_decay(0.9999f, 90000), 0.9999f);
  EXPECT_EQ(average_decay(0.9999f, 1000000000), 0.9999f);
  EXPECT_EQ(average_decay(0.5f, 8), 0.5f);
  EXPECT_EQ(average_decay(0, 5), 0.0f);
}

double penalty_of(const Layout& layout, const float* parameters, float weight_decay) {
  HostStream stream;
  const std::vector<float> table = decays(layout, weight_decay);
  std::vector<double> parts(penalty_parts(layout));
  double total = -1;
  penalty(stream, layout, parameters, table.data(), parts.data(), &total);
  return total;
}

TEST(Penalty, IsHalfTheSquaresTimesTheDecay) {
  const Layout layout = small_layout();
  Arenas arenas(layout, *make_optimizer("sgd", {}));
  arenas.fill(layout);
  const auto squares_of = [&](int index) {
    return squares(arenas.parameters, layout.parameters[index].range);
  };
  const auto expect_penalty = [&](float decay, double wanted) {
    const double is = penalty_of(layout, arenas.parameters.data(), decay);
    EXPECT_NEAR(is, wanted, 1e-12 * wanted) << "except the order of sums";
  };
  expect_penalty(0, 0.25 * squares_of(0));
  expect_penalty(0.25f, 0.375 * squares_of(0) + 0.125 * squares_of(2));
}

TEST(Penalty, CoversArenasOfAnyLength) {
  for (const std::int64_t count : {16, 1008, 1024, 1040, 5008}) {
    const Layout layout = lay_out({{"weights", {count, 1}, 0.5f}});
    std::vector<float> parameters(layout.count);
    for (std::int64_t i = 0; i < count; ++i)
      parameters[Layout::kHeader + i] = static_cast<float>(i);
    const double wanted = 0.25 * squares(parameters, layout.parameters[0].range);
    EXPECT_DOUBLE_EQ(penalty_of(layout, parameters.data(), 0), wanted) << count;
  }
}

}  // namespace
}  // namespace lockstep
