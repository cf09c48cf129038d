// Optimizers against closed forms: each row of the menu must have its own here. Then what update()
// does around them: only its range, decay on weights alone, the average, any number of threads.
#include "net/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "src/random.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

constexpr double kStart = 0.75, kGradient = -0.3, kRate = 0.02;

/// A parameter that begins at kStart and sees the same gradient in every step, and where it must
/// be after n steps.
struct Row {
  const char* optimizer;
  const char* what;
  OptimizerOptions options;
  double gradient, l2;
  std::function<double(int steps)> expected;
};

double sum_of_powers(double base, int count) { return (1 - std::pow(base, count)) / (1 - base); }

std::vector<Row> rows() {
  const double u = static_cast<double>(0.9f), decay = static_cast<double>(0.05f);
  // The momentum after step k is g (1 - u^k) / (1 - u): summed over k = 1 .. n.
  const auto travelled = [u](int n) { return kGradient / (1 - u) * (n - u * sum_of_powers(u, n)); };
  return {
      {"sgd", "plain", {}, kGradient, 0, [](int n) { return kStart - kRate * kGradient * n; }},
      {"sgd", "l2", {}, 0, decay, [=](int n) { return kStart * std::pow(1 - kRate * decay, n); }},
      {"sgd",
       "momentum",
       {.momentum = 0.9f},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * travelled(n); }},
      {"sgd",
       "nesterov",
       {.momentum = 0.9f, .nesterov = true},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * (kGradient * n + u * travelled(n)); }},
      // p' = p - r m', m' = u m + l2 p: a linear recurrence, followed in double.
      {"sgd",
       "momentum_l2",
       {.momentum = 0.9f},
       0,
       decay,
       [=](int n) {
         double p = kStart, m = 0;
         for (int i = 0; i < n; ++i) p -= kRate * (m = u * m + decay * p);
         return p;
       }},
  };
}

TEST(Optimizers, EveryRowOfTheMenuHasAClosedForm) {
  std::set<std::string_view> proven;
  for (const Row& row : rows()) proven.insert(row.optimizer);
  for (const OptimizerEntry& entry : optimizers())
    EXPECT_TRUE(proven.contains(entry.name)) << entry.name << " needs a row in this file";
}

TEST(Optimizers, FollowTheirClosedForms) {
  for (const Row& row : rows()) {
    const auto optimizer = make_optimizer(row.optimizer, row.options);
    for (const int steps : {1, 2, 3, 10, 100}) {
      std::vector<float> parameter(3, static_cast<float>(kStart)),
          gradient(3, static_cast<float>(row.gradient));
      std::vector<std::vector<float>> slots(optimizer->slots().size(), std::vector<float>(3));
      std::vector<float*> places;
      for (auto& slot : slots) places.push_back(slot.data());
      HostStream stream;
      for (int i = 0; i < steps; ++i) {
        optimizer->step(stream, 3, parameter.data(), gradient.data(), places,
                        static_cast<float>(kRate), static_cast<float>(row.l2));
      }
      for (const float value : parameter)
        EXPECT_NEAR(value, row.expected(steps), 2e-6 * steps) << row.what << " after " << steps;
    }
  }
}

TEST(Optimizers, NameWhatTheyKeep) {
  EXPECT_EQ(make_optimizer("sgd", {})->slots(), std::vector<std::string>{});
  EXPECT_EQ(make_optimizer("sgd", {.momentum = 0.9f})->slots(),
            std::vector<std::string>{"momentum"});
  EXPECT_EQ(make_optimizer("sgd", {.momentum = 0.9f, .nesterov = true})->describe(),
            "sgd, momentum 0.9, nesterov");
}

TEST(Optimizers, RefuseWhatCannotBeMeant) {
  EXPECT_NE(error_of([] { make_optimizer("sdg", {}); }).find("did you mean \"sgd\"?"),
            std::string::npos);
  EXPECT_NE(error_of([] { make_optimizer("sgd", {.nesterov = true}); }).find("--momentum 0.9"),
            std::string::npos);
}

/// Two weights (one with its own l2) around a bias, with gaps, as Model lays them out.
Layout small_layout() {
  Layout layout;
  const auto add = [&](const char* name, Shape shape, float l2) {
    layout.parameters.push_back({name, shape, {}, l2, {layout.count, shape.count()}, 0});
    layout.count += (shape.count() + 15) / 16 * 16;
    layout.layers.push_back({layout.parameters.back().range.begin,
                             layout.count - layout.parameters.back().range.begin});
  };
  add("two/weights", {3, 70001}, 0.5f);  // several blocks of update(), the last one short
  add("two/biases", {3}, 0);
  add("one/weights", {5, 5}, 0);
  return layout;
}

/// All arenas of a run on small_layout(), filled with numbers of their own.
struct Arenas {
  explicit Arenas(const Layout& layout) {
    Random random(1, Purpose::generate, 0, 0);
    for (auto* arena : {&parameters, &gradients, &momentum, &average}) {
      for (std::int64_t i = 0; i < layout.count; ++i) arena->push_back(random.normal());
    }
  }
  TrainingState state() { return {parameters.data(), {momentum.data()}, average.data()}; }
  bool operator==(const Arenas&) const = default;
  std::vector<float> parameters, gradients, momentum, average;
};

constexpr UpdateRates kRates{0.1f, 0.25f, 0.9f};

TEST(Update, StepsEveryParameterWithItsOwnDecayAndMovesItsAverage) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {.momentum = 0.9f});
  const Arenas before(layout);
  Arenas after = before;
  HostStream stream;
  update(stream, layout, {0, layout.count}, *sgd, after.state(), after.gradients.data(), kRates);
  std::vector<bool> touched(static_cast<std::size_t>(layout.count));
  for (const Parameter& parameter : layout.parameters) {
    const double l2 = parameter.l2 + (parameter.shape.rank() > 1 ? 0.25 : 0);
    for (std::int64_t at = parameter.range.begin; at < parameter.range.end(); ++at) {
      const auto i = static_cast<std::size_t>(at);
      touched[i] = true;
      const double p = before.parameters[i];
      const double m = 0.9f * before.momentum[i] + before.gradients[i] + l2 * p;
      const double stepped = p - 0.1f * m;
      ASSERT_NEAR(after.momentum[i], m, 2e-6) << parameter.name;
      ASSERT_NEAR(after.parameters[i], stepped, 2e-6) << parameter.name;
      ASSERT_NEAR(after.average[i], 0.9 * before.average[i] + 0.1 * stepped, 2e-6)
          << parameter.name;
    }
  }
  for (std::size_t i = 0; i < touched.size(); ++i) {
    if (touched[i]) continue;
    EXPECT_EQ(after.parameters[i], before.parameters[i]) << "the gap at " << i;
    EXPECT_EQ(after.momentum[i], before.momentum[i]) << "the gap at " << i;
    EXPECT_EQ(after.average[i], before.average[i]) << "the gap at " << i;
  }
  EXPECT_EQ(after.gradients, before.gradients);
}

TEST(Update, RangeByRangeAndWithThreadsGivesTheSameBits) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {.momentum = 0.9f, .nesterov = true});
  Arenas whole(layout), parts(layout), threads(layout);
  HostStream one, three(3);
  update(one, layout, {0, layout.count}, *sgd, whole.state(), whole.gradients.data(), kRates);
  update(three, layout, {0, layout.count}, *sgd, threads.state(), threads.gradients.data(), kRates);
  EXPECT_TRUE(whole == threads);
  for (const Range& layer : layout.layers) {
    EXPECT_FALSE(whole == parts);
    update(one, layout, layer, *sgd, parts.state(), parts.gradients.data(), kRates);
  }
  EXPECT_TRUE(whole == parts);
}

TEST(Update, WithoutAnAverageNoneIsMoved) {
  const Layout layout = small_layout();
  const Arenas before(layout);
  Arenas after = before;
  TrainingState state = after.state();
  state.average = nullptr;
  HostStream stream;
  update(stream, layout, {0, layout.count}, *make_optimizer("sgd", {}), state,
         after.gradients.data(), kRates);
  EXPECT_EQ(after.average, before.average);
  EXPECT_EQ(after.momentum, before.momentum);
  EXPECT_NE(after.parameters, before.parameters);
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

TEST(Penalty, IsHalfTheSquaresTimesTheDecay) {
  const Layout layout = small_layout();
  const Arenas arenas(layout);
  const auto squares = [&](int index) {
    const Range range = layout.parameters[static_cast<std::size_t>(index)].range;
    double sum = 0;
    for (std::int64_t i = range.begin; i < range.end(); ++i) {
      const double value = arenas.parameters[static_cast<std::size_t>(i)];
      sum += value * value;
    }
    return sum;
  };
  EXPECT_DOUBLE_EQ(penalty(layout, arenas.parameters.data(), 0), 0.25 * squares(0));
  EXPECT_DOUBLE_EQ(penalty(layout, arenas.parameters.data(), 0.25f),
                   0.375 * squares(0) + 0.125 * squares(2));
}

}  // namespace
}  // namespace lockstep
