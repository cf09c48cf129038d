// Optimizers against closed forms: each row of the menu must have its own here. Then what update()
// does around them: parameters alone, decay on weights alone, the average, parts of a range, any
// number of threads.
#include "net/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <span>

#include "net/clip.h"
#include "src/base/random.h"
#include "tests/support/files.h"
#include "tests/support/update.h"

namespace lockstep {
namespace {

constexpr double kStart = 0.75, kGradient = -0.3, kRate = 0.02;

/// A parameter that begins at kStart and sees the same gradient in every step, and where it must
/// be after n steps.
struct Row {
  const char* optimizer;
  const char* what;
  OptimizerOptions options;
  double gradient, decay;
  std::function<double(int steps)> expected;
};

double sum_of_powers(double base, int count) { return (1 - std::pow(base, count)) / (1 - base); }

/// Adam in double, as its paper writes it: algorithm 1 with the gradient g(p), and `decoupled` of p
/// taken off besides.
double adam_in_double(int steps, double beta1, double beta2, double epsilon,
                      const std::function<double(int t, double p)>& g, double decoupled) {
  double p = kStart, m = 0, v = 0;
  for (int t = 1; t <= steps; ++t) {
    const double gradient = g(t, p);
    m = beta1 * m + (1 - beta1) * gradient;
    v = beta2 * v + (1 - beta2) * gradient * gradient;
    const double mean = m / (1 - std::pow(beta1, t)), square = v / (1 - std::pow(beta2, t));
    p -= kRate * (mean / (std::sqrt(square) + epsilon) + decoupled * p);
  }
  return p;
}

/// Nadam in double, as Keras' source writes it (keras/src/optimizers/nadam.py), for the gradient g.
double nadam_in_double(int steps, double beta1, double beta2, double epsilon, double g) {
  double p = kStart, m = 0, v = 0, product = 1;
  for (int t = 1; t <= steps; ++t) {
    const double u = beta1 * (1 - 0.5 * std::pow(0.96, t)),
                 next = beta1 * (1 - 0.5 * std::pow(0.96, t + 1));
    product *= u;
    m += (g - m) * (1 - beta1);
    v += (g * g - v) * (1 - beta2);
    const double mean = next * m / (1 - product * next) + (1 - u) * g / (1 - product),
                 square = v / (1 - std::pow(beta2, t));
    p -= mean * kRate / (std::sqrt(square) + epsilon);
  }
  return p;
}

std::vector<Row> rows() {
  const double u = static_cast<double>(0.9f), decay = static_cast<double>(0.05f),
               beta2 = static_cast<double>(0.999f), root = static_cast<double>(0.1f);
  // The momentum after step k is g (1 - u^k) / (1 - u): summed over k = 1 .. n.
  const auto travelled = [u](int n) { return kGradient / (1 - u) * (n - u * sum_of_powers(u, n)); };
  return {
      {"sgd", "plain", {}, kGradient, 0, [](int n) { return kStart - kRate * kGradient * n; }},
      {"sgd", "l2", {}, 0, decay, [=](int n) { return kStart * std::pow(1 - kRate * decay, n); }},
      {"sgd",
       "momentum",
       {{"momentum", 0.9f}},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * travelled(n); }},
      {"sgd",
       "nesterov",
       {{"momentum", 0.9f}, {"nesterov", 1.0f}},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * (kGradient * n + u * travelled(n)); }},
      // p' = p - r m', m' = u m + decay p: a linear recurrence, followed in double.
      {"sgd",
       "momentum_l2",
       {{"momentum", 0.9f}},
       0,
       decay,
       [=](int n) {
         double p = kStart, m = 0;
         for (int i = 0; i < n; ++i) p -= kRate * (m = u * m + decay * p);
         return p;
       }},
      // The corrected means of a gradient that stays the same are that gradient and its square.
      {"adam",
       "one_gradient",
       {{"epsilon", 0.1f}},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * n * kGradient / (std::abs(kGradient) + root); }},
      {"adam",
       "coupled",
       {{"epsilon", 0.1f}},
       kGradient,
       decay,
       [=](int n) {
         return adam_in_double(
             n, u, beta2, root, [=](int, double p) { return kGradient + decay * p; }, 0);
       }},
      {"adamw",
       "decoupled",
       {{"epsilon", 0.1f}},
       kGradient,
       decay,
       [=](int n) {
         return adam_in_double(
             n, u, beta2, root, [](int, double) { return kGradient; }, decay);
       }},
      // v after step k is g^2 (1 - rho^k).
      {"rmsprop",
       "one_gradient",
       {{"epsilon", 0.1f}},
       kGradient,
       0,
       [=](int n) {
         double p = kStart;
         for (int k = 1; k <= n; ++k)
           p -= kRate * kGradient / std::sqrt(kGradient * kGradient * (1 - std::pow(u, k)) + root);
         return p;
       }},
      {"rmsprop",
       "defaults",
       {},
       kGradient,
       0,
       [=](int n) {
         double p = kStart;
         for (int k = 1; k <= n; ++k)
           p += kRate / std::sqrt(1 - std::pow(u, k) + 1e-7 / (kGradient * kGradient));
         return p;
       }},
      {"nadam",
       "one_gradient",
       {{"epsilon", 0.1f}},
       kGradient,
       0,
       [=](int n) { return nadam_in_double(n, u, beta2, root, kGradient); }},
      {"nadam",
       "defaults",
       {},
       kGradient,
       0,
       [=](int n) { return nadam_in_double(n, u, beta2, 1e-7, kGradient); }},
      {"lars",
       "adapted",
       {{"trust", 0.5f}},
       kGradient,
       decay,
       [=](int n) {
         double p = kStart, m = 0;
         for (int k = 0; k < n; ++k) {
           const double ratio = 0.5 * std::abs(p) / (std::abs(kGradient) + decay * std::abs(p));
           m = u * m + ratio * (kGradient + decay * p);
           p -= kRate * m;
         }
         return p;
       }},
      // The corrected means are the gradient and its square: the direction is the gradient's sign,
      // but for epsilon, and the ratio brings it to the length of p.
      {"lamb",
       "adapted",
       {{"epsilon", 0.1f}},
       kGradient,
       decay,
       [=](int n) {
         double p = kStart;
         for (int k = 0; k < n; ++k) {
           const double d = kGradient / (std::abs(kGradient) + root) + decay * p;
           p -= kRate * std::abs(p) / std::abs(d) * d;
         }
         return p;
       }},
      {"muon",
       "what_is_no_filter",
       {{"other-momentum", 0.9f}},
       kGradient,
       0,
       [=](int n) { return kStart - kRate * (kGradient * n + u * travelled(n)); }},
      {"adamw",
       "decay_alone",
       {},
       0,
       decay,
       [=](int n) { return kStart * std::pow(1 - kRate * decay, n); }},
  };
}

/// All arenas of a run on a layout.
class Arenas {
 public:
  Arenas(const Layout& layout, const Optimizer& optimizer, float weight_decay = 0)
      : factors_(factors(layout, weight_decay)),
        parameters(layout.count),
        gradients(parameters),
        average(parameters),
        slots(optimizer.slots().size(), parameters) {}

  /// Random numbers in all parameters; zeros in mail and gaps.
  void fill(const Layout& layout) {
    Random random(1, Purpose::generate, 0, 0);
    std::vector<std::vector<float>*> all{&parameters, &gradients, &average};
    for (auto& slot : slots) all.push_back(&slot);
    for (auto* arena : all) {
      for (const Parameter& parameter : layout.parameters) {
        for (std::int64_t i = parameter.range.begin; i < parameter.range.end(); ++i) {
          // Squares of gradients, as Adam keeps them, are not negative.
          (*arena)[i] = std::abs(random.normal());
        }
      }
    }
  }
  TrainingState state() {
    TrainingState state{parameters.data(), {}, average.data(), gradients.data(), factors_.data()};
    for (auto& slot : slots) state.slots.push_back(slot.data());
    state.scratch = &scratch_.scratch;
    return state;
  }
  bool operator==(const Arenas&) const = default;

 private:
  struct Scratch {
    LayerScratch scratch;
    bool operator==(const Scratch&) const { return true; }  // nothing is kept in it
  };
  std::vector<float> factors_;
  Scratch scratch_;

 public:
  std::vector<float> parameters, gradients, average;
  std::vector<std::vector<float>> slots;
};

Layout one_parameter(Shape shape, float l2) {
  Layout layout;
  layout.parameters.push_back({"one/weights", shape, {}, l2, {layout.count, shape.count()}, 0});
  layout.count += Layout::aligned(shape.count());
  layout.layers.push_back({Layout::kHeader, layout.count - Layout::kHeader});
  return layout;
}

UpdateRates rates_of(const Optimizer& optimizer, std::int64_t step, double rate = kRate) {
  return {static_cast<float>(rate), 0.9f, optimizer.corrections(step)};
}

TEST(Optimizers, EveryRowOfTheMenuHasAClosedForm) {
  std::set<std::string_view> proven;
  for (const Row& row : rows()) proven.insert(row.optimizer);
  for (const OptimizerEntry& entry : optimizers())
    EXPECT_TRUE(proven.contains(entry.name)) << entry.name << " needs a row in this file";
}

TEST(Optimizers, FollowTheirClosedForms) {
  HostStream stream;
  for (const Row& row : rows()) {
    const auto optimizer = make_optimizer(row.optimizer, row.options);
    const Layout layout = one_parameter({3, 1}, static_cast<float>(row.decay));
    for (const int steps : {1, 2, 3, 10, 100}) {
      Arenas arenas(layout, *optimizer);
      for (std::size_t i = Layout::kHeader; i < Layout::kHeader + 3; ++i) {
        arenas.parameters[i] = static_cast<float>(kStart);
        arenas.gradients[i] = static_cast<float>(row.gradient);
      }
      for (int i = 0; i < steps; ++i) {
        const UpdateRates now = rates_of(*optimizer, i);
        update(stream, layout, {0, layout.count}, *optimizer, arenas.state(), &now);
      }
      for (std::size_t i = Layout::kHeader; i < Layout::kHeader + 3; ++i) {
        EXPECT_NEAR(arenas.parameters[i], row.expected(steps), 2e-6 * steps)
            << row.optimizer << ' ' << row.what << " after " << steps;
      }
    }
  }
}

TEST(Adam, TakesTheBiasOfItsFirstStepsOffAsInDouble) {
  // Gradients that change: without the corrections the first steps would be 3 and 4 times as long.
  const auto optimizer = make_optimizer("adam", {{"beta1", 0.75f}, {"beta2", 0.875f}});
  const auto g = [](int t, double) { return t == 2 ? -0.5 : 0.25 * t; };
  const Layout layout = one_parameter({20}, 0);
  Arenas arenas(layout, *optimizer);
  std::fill(arenas.parameters.begin() + Layout::kHeader, arenas.parameters.end(),
            static_cast<float>(kStart));
  HostStream stream;
  for (int t = 1; t <= 3; ++t) {
    std::fill(arenas.gradients.begin() + Layout::kHeader, arenas.gradients.end(),
              static_cast<float>(g(t, 0)));
    const UpdateRates now = rates_of(*optimizer, t - 1);
    update(stream, layout, {0, layout.count}, *optimizer, arenas.state(), &now);
    EXPECT_NEAR(arenas.parameters[Layout::kHeader],
                adam_in_double(t, 0.75, 0.875, static_cast<double>(1e-8f), g, 0), 2e-7)
        << "after step " << t;
  }
}

/// Two weights (one with its own l2) around a bias, with gaps, as Model lays them out.
Layout small_layout() {
  Layout layout;
  const auto add = [&](const char* name, Shape shape, float l2) {
    layout.parameters.push_back({name, shape, {}, l2, {layout.count, shape.count()}, 0});
    layout.count += Layout::aligned(shape.count());
    layout.layers.push_back({layout.parameters.back().range.begin,
                             layout.count - layout.parameters.back().range.begin});
  };
  add("two/weights", {3, 70001}, 0.5f);
  add("two/biases", {3}, 0);
  add("one/weights", {5, 5}, 0);
  return layout;
}

/// `steps` steps of `optimizer` on an array that begins at `start`.
Arenas stepped(const char* name, const OptimizerOptions& options, Shape shape, float start,
               int steps) {
  const auto optimizer = make_optimizer(name, options);
  const Layout layout = one_parameter(shape, 0);
  Arenas arenas(layout, *optimizer, /*weight_decay=*/0.1f);
  HostStream stream;
  for (std::int64_t i = 0; i < shape.count(); ++i) arenas.parameters[Layout::kHeader + i] = start;
  for (int step = 0; step < steps; ++step) {
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      arenas.gradients[Layout::kHeader + i] = 0.1f * static_cast<float>(i + step);
    }
    const UpdateRates now = rates_of(*optimizer, step);
    update(stream, layout, {0, layout.count}, *optimizer, arenas.state(), &now);
  }
  return arenas;
}

/// Up to what a compiler makes of sums and products that it may fuse.
void expect_near(std::span<const float> found, std::span<const float> right) {
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(found[i], right[i], 1e-6 * (1 + std::abs(right[i]))) << i;
}

TEST(Layerwise, BiasesAndWeightsOfNoLengthAreNotAdapted) {
  const OptimizerOptions momentum{{"momentum", 0.9f}}, epsilon{{"epsilon", 1e-6f}};
  for (const auto& [shape, start] : {std::pair(Shape{20}, 0.5f), {Shape{5, 4}, 0.0f}}) {
    const int steps = start == 0 ? 1 : 5;
    expect_near(stepped("lars", momentum, shape, start, steps).parameters,
                stepped("sgd", momentum, shape, start, steps).parameters);
    expect_near(stepped("lamb", epsilon, shape, start, steps).parameters,
                stepped("adam", epsilon, shape, start, steps).parameters);
  }
  EXPECT_NE(stepped("lars", momentum, {5, 4}, 0.5f, 1).parameters,
            stepped("sgd", momentum, {5, 4}, 0.5f, 1).parameters);
}

TEST(Layerwise, TheStepIsAShareOfTheArraysLengthHoweverLongTheGradient) {
  const Layout layout = small_layout();
  for (const char* name : {"lars", "lamb"}) {
    const auto optimizer = make_optimizer(name, {});
    for (const float scale : {1e-3f, 1e3f}) {
      Arenas before(layout, *optimizer);
      before.fill(layout);
      for (auto& slot : before.slots) std::fill(slot.begin(), slot.end(), 0.0f);
      for (float& g : before.gradients) g *= scale;
      Arenas after = before;
      HostStream stream;
      const UpdateRates now = rates_of(*optimizer, 0);
      update(stream, layout, {0, layout.count}, *optimizer, after.state(), &now);
      for (const Parameter& parameter : layout.parameters) {
        // two/weights decays, which is a part of LARS' ratio.
        if (parameter.shape.rank() == 1 || parameter.l2 > 0) continue;
        double length = 0, moved = 0;
        for (std::int64_t at = parameter.range.begin; at < parameter.range.end(); ++at) {
          const auto i = static_cast<std::size_t>(at);
          length += std::pow(before.parameters[i], 2);
          moved += std::pow(double{after.parameters[i]} - before.parameters[i], 2);
        }
        const double share = kRate * (name == std::string_view("lars") ? 0.02 : 1);
        EXPECT_NEAR(std::sqrt(moved / length), share, 1e-4 * share) << name;
      }
    }
  }
}

TEST(Layerwise, AGradientOfNextToNoLengthLeavesNumbers) {
  const Layout layout = one_parameter({5, 4}, 0);
  for (const char* name : {"lars", "lamb"}) {
    const auto optimizer = make_optimizer(name, {});
    Arenas arenas(layout, *optimizer);
    std::fill_n(arenas.parameters.begin() + Layout::kHeader, 20, 10.0f);
    arenas.gradients[Layout::kHeader] = 1e-42f;  // the others are 0
    HostStream stream;
    const UpdateRates now = rates_of(*optimizer, 0);
    update(stream, layout, {0, layout.count}, *optimizer, arenas.state(), &now);
    for (int i = 0; i < 20; ++i)
      EXPECT_TRUE(std::isfinite(arenas.parameters[Layout::kHeader + i])) << name << " " << i;
  }
}

TEST(Muon, BringsEveryDirectionOfFiltersToLengthsAboutOne) {
  // Singular values: those of x are taken apart by the rows, which are at right angles to each
  // other.
  const Layout layout = one_parameter({3, 2, 2, 5}, 0);
  const auto device = make_cpu_device(1);
  const auto muon = make_optimizer("muon", {{"momentum", 0.0f}, {"newton-schulz", 5.0f}});
  muon->plan(*device, layout);
  Arenas arenas(layout, *muon);
  for (int row = 0; row < 3; ++row)
    for (int i = 0; i < 4; ++i)
      arenas.gradients[Layout::kHeader + 20 * row + 4 * row + i] =
          std::pow(10.0f, static_cast<float>(-row));
  HostStream stream;
  const UpdateRates now = rates_of(*muon, 0, 1);
  update(stream, layout, {0, layout.count}, *muon, arenas.state(), &now);
  for (int row = 0; row < 3; ++row) {
    double squares = 0;
    for (int i = 0; i < 20; ++i) {
      const double step = arenas.parameters[Layout::kHeader + 20 * row + i];
      if (i / 4 == row) {
        squares += step * step;
        EXPECT_LT(step, 0);
      } else {
        EXPECT_NEAR(step, 0, 1e-6) << "the direction stays";
      }
    }
    EXPECT_NEAR(std::sqrt(squares), 1, 0.35) << row;
  }
}

/// One of two ranks: it works out every other piece, and has the other's answers for the rest.
class OneOfTwo : public SharedWork {
 public:
  OneOfTwo(int rank, std::vector<std::vector<float>>& answers) : rank_(rank), answers_(answers) {}
  bool mine(int number) const override { return number % 2 == rank_; }
  void share(Stream&, int number, float* values, std::int64_t count) override {
    auto& answer = answers_[number];
    if (mine(number)) {
      answer.assign(values, values + count);
    } else if (std::ssize(answer) == count) {
      std::copy(answer.begin(), answer.end(), values);
    }
  }

 private:
  int rank_;
  std::vector<std::vector<float>>& answers_;
};

TEST(Muon, RanksShareItsWork) {
  Layout layout;
  for (const auto& [name, shape] : {std::pair("two/weights", Shape{3, 2, 5}),
                                    {"two/biases", {3}},
                                    {"one/weights", {4, 3, 2, 2}}}) {
    layout.parameters.push_back({name, shape, {}, 0, {layout.count, shape.count()}, 0});
    layout.count += Layout::aligned(shape.count());
  }
  const auto device = make_cpu_device(1);
  HostStream stream;
  std::vector<std::vector<float>> answers(2);
  const auto step = [&](SharedWork* shared) {
    const auto muon = make_optimizer("muon", {});
    muon->plan(*device, layout);
    Arenas arenas(layout, *muon);
    arenas.fill(layout);
    TrainingState state = arenas.state();
    state.shared = shared;
    const UpdateRates now = rates_of(*muon, 0);
    update(stream, layout, {0, layout.count}, *muon, state, &now);
    return arenas;
  };
  const Arenas alone = step(nullptr);
  OneOfTwo first(0, answers), second(1, answers);
  EXPECT_FALSE(step(&first) == alone) << "without the other's answer";
  EXPECT_TRUE(step(&second) == alone);
  EXPECT_TRUE(step(&first) == alone);
  EXPECT_EQ(answers[0].size(), 48u) << "the most costly piece first";
}

TEST(Muon, SkipsAStepAndLeavesNumbersWhereThereIsNoGradient) {
  const Layout layout = one_parameter({3, 2, 5}, 0);
  const auto device = make_cpu_device(1);
  const auto muon = make_optimizer("muon", {{"unit-filters", 1.0f}});
  muon->plan(*device, layout);
  Arenas before(layout, *muon);
  before.fill(layout);
  Arenas after = before;
  HostStream stream;
  UpdateRates now = rates_of(*muon, 0);
  now.skip = 1;
  update(stream, layout, {0, layout.count}, *muon, after.state(), &now);
  EXPECT_EQ(after.parameters, before.parameters);
  EXPECT_EQ(after.slots, before.slots);
  now.skip = 0;
  std::fill(after.gradients.begin(), after.gradients.end(), 0.0f);
  std::fill(after.slots[0].begin(), after.slots[0].end(), 0.0f);
  update(stream, layout, {0, layout.count}, *muon, after.state(), &now);
  double squares = 0;
  for (const float value : after.parameters) squares += std::pow(value, 2);
  EXPECT_NEAR(squares, 3, 1e-5) << "brought to its length, and no further";
}

TEST(Optimizers, NameWhatTheyKeep) {
  const OptimizerOptions momentum{{"momentum", 0.9f}},
      nesterov{{"momentum", 0.9f}, {"nesterov", 1.0f}};
  EXPECT_EQ(make_optimizer("sgd", {})->slots(), std::vector<std::string>{});
  EXPECT_EQ(make_optimizer("sgd", momentum)->slots(), std::vector<std::string>{"momentum"});
  EXPECT_EQ(make_optimizer("adam", {})->slots(), (std::vector<std::string>{"m", "v"}));
  EXPECT_EQ(describe_optimizer("sgd", {}), "sgd");
  EXPECT_EQ(describe_optimizer("sgd", nesterov), "sgd, momentum 0.9, nesterov");
  EXPECT_EQ(describe_optimizer("adamw", {{"beta1", 0.5f}}),
            "adamw, beta1 0.5, beta2 0.999, epsilon 1e-08");
}

TEST(Optimizers, RefuseWhatCannotBeMeant) {
  EXPECT_NE(error_of([] { make_optimizer("sdg", {}); }).find("did you mean \"sgd\"?"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              make_optimizer("sgd", {{"nesterov", 1.0f}});
            }).find("--momentum 0.9"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              make_optimizer("adam", {{"momentum", 0.9f}});
            }).find("another's"),
            std::string::npos);
}

TEST(Optimizers, OptionsOfOneNameAreOneOption) {
  // The command line has one option of a name, whoever declares it.
  std::map<std::string_view, const OptimizerOption*> known;
  for (const OptimizerEntry& entry : optimizers()) {
    for (const OptimizerOption& option : entry.options) {
      const OptimizerOption& first = *known.emplace(option.name, &option).first->second;
      EXPECT_EQ(option.about, first.about) << option.name;
      EXPECT_EQ(option.kind, first.kind) << option.name;
      EXPECT_EQ(option.low, first.low) << option.name;
      EXPECT_EQ(option.high, first.high) << option.name;
      EXPECT_EQ(option.above_low, first.above_low) << option.name;
    }
  }
}

constexpr float kDecay = 0.25f;

TEST(Update, StepsEveryParameterWithItsOwnDecayAndMovesItsAverage) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {{"momentum", 0.9f}});
  Arenas before(layout, *sgd, kDecay);
  before.fill(layout);
  for (std::size_t i = 0; i < Layout::kHeader; ++i) before.gradients[i] = 1;  // the mail
  Arenas after = before;
  HostStream stream;
  const UpdateRates now = rates_of(*sgd, 0, 0.1);
  update(stream, layout, {0, layout.count}, *sgd, after.state(), &now);
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
    EXPECT_EQ(after.parameters[i], 0) << "mail or gap at " << i;
    EXPECT_EQ(after.slots[0][i], 0) << "mail or gap at " << i;
    EXPECT_EQ(after.average[i], 0) << "mail or gap at " << i;
  }
  EXPECT_EQ(after.gradients, before.gradients);
}

TEST(Update, PartsAndThreadsGiveTheSameBits) {
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
      EXPECT_NE(error_of([&] {
                  update(one, layout, {0, 48}, *optimizer, parts.state(), &now);
                }).find("a part of a parameter"),
                std::string::npos);
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

TEST(Update, WithoutAnAverageNoneIsMoved) {
  const Layout layout = small_layout();
  const auto sgd = make_optimizer("sgd", {});
  Arenas before(layout, *sgd);
  before.fill(layout);
  Arenas with = before, without = before;
  TrainingState state = without.state();
  state.average = nullptr;
  HostStream stream;
  const UpdateRates now = rates_of(*sgd, 0);
  update(stream, layout, {0, layout.count}, *sgd, with.state(), &now);
  update(stream, layout, {0, layout.count}, *sgd, state, &now);
  EXPECT_EQ(without.average, before.average);
  EXPECT_NE(without.parameters, before.parameters);
  EXPECT_EQ(without.parameters, with.parameters);
}

TEST(Clip, ScalesAllGradientsDownToTheirLimitTogether) {
  Layout layout = small_layout();
  layout.parameters.push_back({"norm/mean", {4}, {}, 0, {layout.count, 4}, 0, 0.1f});
  layout.count += Layout::aligned(4);
  layout.layers.back().count += Layout::aligned(4);
  const auto device = make_cpu_device(1);
  const auto sgd = make_optimizer("sgd", {});
  Arenas before(layout, *sgd);
  before.fill(layout);
  double squares = 0;
  for (std::size_t p = 0; p + 1 < layout.parameters.size(); ++p) {
    const Range range = layout.parameters[p].range;
    for (std::int64_t i = range.begin; i < range.end(); ++i)
      squares += std::pow(before.gradients[i], 2);
  }
  const double norm = std::sqrt(squares);
  HostStream one, three(3);
  for (const double limit : {norm / 4, norm * 1.001}) {
    const GradientClip clip(*device, layout, static_cast<float>(limit));
    UpdateRates now = rates_of(*sgd, 0, 1), same = now;
    clip.give(one, before.gradients.data(), &now);
    clip.give(three, before.gradients.data(), &same);
    EXPECT_EQ(now.scale, same.scale) << "on several threads";
    EXPECT_NEAR(now.scale, limit < norm ? 0.25 : 1, 1e-6);
    Arenas after = before;
    update(one, layout, {0, layout.count}, *sgd, after.state(), &now);
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
  const std::vector<float> table = factors(layout, weight_decay);
  std::vector<double> parts(penalty_parts(layout));
  double total = -1;
  penalty(stream, layout, parameters, table.data(), parts.data(), &total);
  return total;
}

TEST(Penalty, IsHalfTheSquaresTimesTheDecay) {
  const Layout layout = small_layout();
  Arenas arenas(layout, *make_optimizer("sgd", {}));
  arenas.fill(layout);
  const auto squares = [&](int index) {
    const Range range = layout.parameters[index].range;
    double sum = 0;
    for (std::int64_t i = range.begin; i < range.end(); ++i) {
      const double value = arenas.parameters[i];
      sum += value * value;
    }
    return sum;
  };
  const auto expect_penalty = [&](float decay, double wanted) {
    const double is = penalty_of(layout, arenas.parameters.data(), decay);
    EXPECT_NEAR(is, wanted, 1e-12 * wanted) << "but for the order of sums";
  };
  expect_penalty(0, 0.25 * squares(0));
  expect_penalty(0.25f, 0.375 * squares(0) + 0.125 * squares(2));
}

TEST(Penalty, IsOfWholeArenasHoweverLong) {
  for (const std::int64_t count : {16, 1008, 1024, 1040, 5008}) {
    Layout layout;
    layout.parameters.push_back({"weights", {count, 1}, {}, 0.5f, {Layout::kHeader, count}, 0});
    layout.count = Layout::kHeader + count;
    std::vector<float> parameters(layout.count);
    double squares = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      parameters[Layout::kHeader + i] = static_cast<float>(i);
      squares += static_cast<double>(i) * static_cast<double>(i);
    }
    EXPECT_DOUBLE_EQ(penalty_of(layout, parameters.data(), 0), 0.25 * squares) << count;
  }
}

}  // namespace
}  // namespace lockstep
