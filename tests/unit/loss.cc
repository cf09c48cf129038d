// The loss against a reference in double, its gradient against central differences of that, what
// ties and NaN do to the rank, and scores that do not depend on the order of samples.
#include "net/loss.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "net/exponential.h"
#include "src/base/random.h"
#include "tests/support/expect_error.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Rows of logits and all that determines their loss.
template <class T>
struct Case {
  std::vector<T> logits;
  std::vector<std::int32_t> labels;
  float scale = 1, smoothing = 0;
  /// With these, each sample is mixed with another.
  std::vector<std::int32_t> others = {};
  std::vector<float> weights = {};
  std::vector<float> class_weights = {};
  int threads = 1;

  std::int64_t samples() const { return std::ssize(labels); }
  std::int64_t classes() const { return std::ssize(logits) / samples(); }
};

/// Gradients, score and confusion of a case.
template <class T>
struct Outcome {
  explicit Outcome(Case<T> c) : gradient(c.logits.size()), confusion(c.classes() * c.classes()) {
    const auto device = make_cpu_device(c.threads);
    const auto stream = device->stream();
    const Shape shape{c.samples(), c.classes()}, rows{c.samples()};
    LossSpec spec{.logits = {c.logits.data(), shape, type_of<T>},
                  .labels = {c.labels.data(), rows, Type::i32},
                  .score = &score,
                  .gradient = {gradient.data(), shape, type_of<T>},
                  .scale = c.scale,
                  .confusion = confusion.data()};
    spec.modifiers.LabelSmoothing::value = c.smoothing;
    if (!c.weights.empty()) {
      static_cast<MixedLabels&>(spec.modifiers) = {{c.others.data(), rows, Type::i32},
                                                   {c.weights.data(), rows, Type::f32}};
    }
    if (!c.class_weights.empty())
      spec.modifiers.ClassWeights::weights = {c.class_weights.data(), {c.classes()}, Type::f32};
    softmax_cross_entropy(*stream, spec);
  }
  std::vector<T> gradient;
  Score score;
  std::vector<std::int64_t> confusion;
};

/// -log(softmax(logits)[label])
double reference_loss(const std::vector<double>& logits, std::int32_t label) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  return std::log(sum) + highest - logits[label];
}

/// The loss of sample `n`, if its logits are `row`.
template <class T>
double reference_loss(const Case<T>& c, std::size_t n, const std::vector<double>& row) {
  double of_all = 0;
  for (std::size_t k = 0; k < row.size(); ++k)
    of_all += reference_loss(row, static_cast<std::int32_t>(k)) / static_cast<double>(row.size());
  const auto of = [&](std::int32_t label) {
    const double weight = c.class_weights.empty() ? 1 : c.class_weights[label];
    return weight * ((1 - c.smoothing) * reference_loss(row, label) + c.smoothing * of_all);
  };
  if (c.weights.empty()) return of(c.labels[n]);
  const double own = c.weights[n];
  return own * of(c.labels[n]) + (1 - own) * of(c.others[n]);
}

/// The logits of sample `n`.
template <class T>
std::vector<double> row_of(const Case<T>& c, std::size_t n) {
  const auto begin = c.logits.begin() + static_cast<std::ptrdiff_t>(n) * c.classes();
  return {begin, begin + c.classes()};
}

/// Compares the mean loss with the reference, and gradients with its central differences.
template <class T>
Outcome<T> expect_reference(const Case<T>& c, double tolerance, double tolerance_of_loss = 1e-6) {
  constexpr double kStep = 1e-5;
  const Outcome<T> outcome(c);
  double losses = 0;
  for (std::size_t n = 0; n < c.labels.size(); ++n) {
    const std::vector<double> row = row_of(c, n);
    losses += reference_loss(c, n, row);
    for (std::size_t k = 0; k < row.size(); ++k) {
      std::vector<double> above = row, below = row;
      above[k] += kStep;
      below[k] -= kStep;
      const double slope =
          (reference_loss(c, n, above) - reference_loss(c, n, below)) / (2 * kStep);
      EXPECT_NEAR(outcome.gradient[n * row.size() + k] / c.scale, slope,
                  tolerance * std::max(1.0, std::abs(slope)))
          << "sample " << n << ", class " << k << ", smoothing " << c.smoothing;
    }
  }
  EXPECT_NEAR(outcome.score.loss(), losses / static_cast<double>(c.samples()), tolerance_of_loss);
  return outcome;
}

/// Random logits of about the size `spread`, and labels.
template <class T>
Case<T> random_case(std::int64_t samples, std::int64_t classes, float spread,
                    std::uint64_t seed = 1) {
  Random random(seed, Purpose::generate, 0, 0);
  Case<T> c;
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t k = 0; k < classes; ++k) c.logits.push_back(random.normal() * spread);
    c.labels.push_back(
        static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(classes))));
  }
  return c;
}

/// Mixes each sample with another, at times of the same label.
void mix(Case<float>& c) {
  Random random(4, Purpose::generate, 0, 1);
  for (std::size_t n = 0; n < c.labels.size(); ++n) {
    c.others.push_back(static_cast<std::int32_t>(random.below(5)));
    c.weights.push_back(n == 0 ? 1 : n == 1 ? 0 : n == 2 ? 0.5f : random.uniform());
  }
}

TEST(Loss, ValueAndGradientMatchDouble) {
  for (const float spread : {1.0f, 30.0f}) {
    Case<float> c = random_case<float>(40, 10, spread);
    c.scale = 1 / 128.0f;
    expect_reference(c, spread > 1 ? 1e-5 : 1e-6, 2e-6 * (1 + spread));
  }
}

TEST(Loss, OfBfloat16LogitsIsExactExceptForRoundedGradients) {
  Case<Bfloat16> c = random_case<Bfloat16>(40, 10, 2);
  c.scale = 1 / 128.0f;
  expect_reference(c, 4e-3, 6e-6);
}

TEST(Loss, MixedLabelsMatchTheirTargets) {
  Case<float> c = random_case<float>(30, 5, 2, 4);
  mix(c);
  for (const float smoothing : {0.0f, 0.125f}) {
    c.smoothing = smoothing;
    std::int64_t right = 0;
    for (std::size_t n = 0; n < c.labels.size(); ++n) {
      const std::vector<double> row = row_of(c, n);
      const std::int32_t heavier = c.weights[n] < 0.5f ? c.others[n] : c.labels[n];
      right += std::max_element(row.begin(), row.end()) - row.begin() == heavier;
    }
    EXPECT_EQ(expect_reference(c, 1e-6).score.top1, right) << "by the heavier label";
  }
  Case<float> whole = c, plain = c;
  std::fill(whole.weights.begin(), whole.weights.end(), 1.0f);
  plain.weights.clear();
  const Outcome<float> one(whole), two(plain);
  EXPECT_EQ(one.score, two.score) << "a weight of 1 is no mixing";
  EXPECT_EQ(one.gradient, two.gradient);
}

TEST(Loss, OfWeightedClassesMatchesDouble) {
  for (const bool mixed : {false, true}) {
    for (const float smoothing : {0.0f, 0.125f}) {
      Case<float> c = random_case<float>(40, 5, 2, 3);
      if (mixed) mix(c);
      c.smoothing = smoothing;
      const Outcome<float> plain(c);
      for (const std::vector<float>& weights :
           {std::vector<float>(5, 1), {0.25f, 3, 1, 0, 17.5f}}) {
        c.class_weights = weights;
        const Outcome<float> weighted = expect_reference(c, 2e-6);
        EXPECT_EQ(weighted.score.top1, plain.score.top1);
        EXPECT_EQ(weighted.score.samples, plain.score.samples);
        if (mixed || weights[0] != 1) continue;  // mixed labels are rounded once more
        EXPECT_EQ(weighted.score, plain.score) << "a weight of 1 changes no bit";
        EXPECT_EQ(weighted.gradient, plain.gradient);
      }
    }
  }
}

TEST(Loss, RefusesModifiersThatDoNotFit) {
  std::vector<float> logits(6), weights(3);
  std::vector<std::int32_t> labels(2);
  const View two{weights.data(), {2}, Type::f32}, three{weights.data(), {3}, Type::f32},
      others{labels.data(), {2}, Type::i32};
  const auto loss = [&](const LossModifiers& modifiers) {
    HostStream stream;
    Score score;
    softmax_cross_entropy(stream, {.logits = {logits.data(), {2, 3}, Type::f32},
                                   .labels = others,
                                   .score = &score,
                                   .modifiers = modifiers});
  };
  loss({{others, two}, {three}, {1}});
  const View few{weights.data(), {1}, Type::f32};
  const LossModifiers mixes[] = {
      {{{}, two}, {}, {}}, {{others, {}}, {}, {}}, {{others, few}, {}, {}}};
  for (const LossModifiers& wrong : mixes) expect_error({"modifier"}, [&] { loss(wrong); });
  expect_error({"modifier"}, [&] { loss({{}, {two}, {}}); });
}

/// The outcome of one row of fp32 logits.
Outcome<float> judge(std::vector<float> logits, std::int32_t label) {
  return Outcome<float>({std::move(logits), {label}});
}

double loss_of(std::vector<float> logits, std::int32_t label) {
  return judge(std::move(logits), label).score.loss();
}

/// How many classes score above the label's, at most 5: so many more may, for it to stay in the top
/// five.
int rank_of(std::vector<float> logits, std::int32_t label) {
  int rank = 5;
  for (; rank > 0 && judge(logits, label).score.top5 == 1; --rank) logits.push_back(1e30f);
  return rank;
}

/// The class that the confusion table has for it.
std::int64_t predicted(const std::vector<float>& logits, std::int32_t label) {
  const std::vector<std::int64_t> confusion = judge(logits, label).confusion;
  EXPECT_EQ(std::count(confusion.begin(), confusion.end(), 1), 1);
  const auto at = std::find(confusion.begin(), confusion.end(), 1) - confusion.begin();
  const auto classes = static_cast<std::int64_t>(logits.size());
  EXPECT_EQ(at / classes, label);
  return at % classes;
}

TEST(Loss, DoesNotOverflow) {
  EXPECT_EQ(loss_of({5000, -5000, 0}, 0), 0);
  EXPECT_EQ(loss_of({5000, -5000, 0}, 1), 10000);
  EXPECT_FLOAT_EQ(static_cast<float>(loss_of({-5000, -5000}, 0)), std::log(2.0f));
}

TEST(Loss, ThreadsDoNotChangeIt) {
  for (const std::vector<float>& weights : {std::vector<float>(), {1, 2, 3, 4, 5}}) {
    Case<float> c = random_case<float>(1000, 5, 1, 2);
    c.class_weights = weights;
    const Outcome<float> one(c);
    c.threads = 3;
    const Outcome<float> three(c);
    EXPECT_EQ(one.gradient, three.gradient);
    EXPECT_EQ(one.score, three.score);
    EXPECT_EQ(one.confusion, three.confusion);
  }
}

TEST(Loss, WithoutGradientAndConfusionTheScoreIsTheSame) {
  std::vector<float> logits{1, 2, 3};
  std::vector<std::int32_t> labels{1};
  Score score;
  HostStream stream;
  LossSpec spec{{logits.data(), {1, 3}, Type::f32}, {labels.data(), {1}, Type::i32}, &score};
  softmax_cross_entropy(stream, spec);
  EXPECT_EQ(score, judge(logits, 1).score);
  spec.labels.shape = {0};
  expect_error({"label"}, [&] { softmax_cross_entropy(stream, spec); });
}

TEST(Rank, CountsTheClassesAbove) {
  const std::vector<float> logits{0.5f, 3, -1, 2, 7, 1};
  const int ranks[] = {4, 1, 5, 2, 0, 3};
  for (std::int32_t label = 0; label < 6; ++label) {
    EXPECT_EQ(rank_of(logits, label), ranks[label]);
    EXPECT_EQ(predicted(logits, label), 4);
    EXPECT_EQ(judge(logits, label).score.top1, label == 4);
  }
}

TEST(Rank, OrdersEqualScoresByClass) {
  for (std::int32_t label = 0; label < 10; ++label) {
    const std::vector<float> logits(10, 1.5f);
    EXPECT_EQ(rank_of(logits, label), std::min(label, 5));
    EXPECT_EQ(predicted(logits, label), 0);
  }
  EXPECT_EQ(rank_of({1, 2, 2, 0}, 1), 0);
  EXPECT_EQ(rank_of({1, 2, 2, 0}, 2), 1);
  EXPECT_EQ(predicted({1, 2, 2, 0}, 2), 1);
}

TEST(Rank, NanCountsAgainstTheLabel) {
  // A network that has diverged must not look right by luck.
  for (std::int32_t label = 0; label < 3; ++label) {
    EXPECT_EQ(rank_of({kNan, kNan, kNan}, label), 2);
    EXPECT_EQ(predicted({kNan, kNan, kNan}, label), 0);
    EXPECT_TRUE(std::isnan(loss_of({kNan, kNan, kNan}, label)));
  }
  EXPECT_EQ(rank_of({kNan, 5, 1}, 1), 1);
  EXPECT_EQ(rank_of({5, 1, kNan}, 0), 1);
  EXPECT_TRUE(std::isnan(loss_of({kNan, 5, 1}, 1)));
  EXPECT_EQ(rank_of({kNan, 5, 1}, 0), 2);
}

TEST(Score, CountsTop1AndTop5) {
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  for (std::int32_t label = 0; label < 10; ++label) {
    for (int c = 0; c < 10; ++c) logits.push_back(static_cast<float>(-c));
    labels.push_back(label);
  }
  const Score score = Outcome<float>({logits, labels}).score;
  EXPECT_EQ(score.samples, 10);
  EXPECT_EQ(score.top1, 1);
  EXPECT_EQ(score.top5, 5);
  EXPECT_EQ(score.top1_share(), 0.1);
  EXPECT_EQ(score.top5_share(), 0.5);
}

TEST(Score, IsTheSameInEveryOrderAndGrouping) {
  constexpr std::int64_t kSamples = 1000, kClasses = 4;
  Case<float> c = random_case<float>(kSamples, kClasses, 1, 3);
  Random random(3, Purpose::generate, 0, 1);
  for (float& logit : c.logits) logit *= std::exp2(random.uniform(-20.0f, 5.0f));
  double sum = 0;
  for (std::size_t n = 0; n < kSamples; ++n) sum += reference_loss(c, n, row_of(c, n));
  const Score all = Outcome<float>(c).score;
  Score backward;  // one sample after another, the last first
  HostStream stream;
  for (std::int64_t n = kSamples; n-- > 0;) {
    softmax_cross_entropy(stream, {{c.logits.data() + n * kClasses, {1, kClasses}, Type::f32},
                                   {c.labels.data() + n, {1}, Type::i32},
                                   &backward});
  }
  EXPECT_EQ(all, backward);
  EXPECT_NEAR(all.loss(), sum / kSamples, 1e-6);
}

TEST(Score, NoNumberOfHighLossesOverflows) {
  constexpr std::size_t kSamples = 10000;
  std::vector<float> logits;
  for (std::size_t n = 0; n < kSamples; ++n) logits.insert(logits.end(), {99999, 0});
  Score score = Outcome<float>({logits, std::vector<std::int32_t>(kSamples, 1)}).score;
  EXPECT_EQ(score.loss(), 99999.0);
  EXPECT_EQ(score.diverged, 0);
  // As on many ranks: 2^31 samples of one loss.
  for (const float loss : {0.75f, 17580.5f, 99999.0f, 1e6f, 5e9f, 1e30f, 3e38f}) {
    score = judge({loss, 0}, 1).score;
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    score.samples = kMost;
    score.loss_fraction *= kMost;
    for (std::int64_t& whole : score.loss_whole) whole *= kMost;
    EXPECT_NEAR(score.loss() / (std::log1p(std::exp(-loss)) + loss), 1, 1e-7) << loss;
  }
}

/// The sum as a single count of 2^-32, which normal losses always had.
TEST(Score, NormalLossesAreRoundedOnce) {
  Random random(6, Purpose::generate, 0, 0);
  Score score;
  std::int64_t units = 0;
  HostStream stream;
  for (int n = 0; n < 2000; ++n) {
    std::vector<float> logits{random.normal() * std::exp2(random.uniform(-24.0f, 16.0f)), 0};
    const std::int32_t label = n % 2;
    softmax_cross_entropy(stream, {{logits.data(), {1, 2}, Type::f32},
                                   {const_cast<std::int32_t*>(&label), {1}, Type::i32},
                                   &score});
    const float highest = std::max(logits[0], 0.0f);
    const float loss = natural_log(exponential(logits[0] - highest) + exponential(0 - highest)) +
                       (highest - logits[static_cast<std::size_t>(label)]);
    units += std::llround(static_cast<double>(loss) * 0x1p32);
    ASSERT_EQ(score.loss_sum(), static_cast<double>(units) * 0x1p-32) << n;
  }
}

template <class T>
void check_spread_logits() {
  const std::vector<float> sizes{1,    100,   1e4f,  17580, 65504, 2e5f,   1e6f,
                                 3e9f, 1e15f, 4e19f, 1e30f, 1e38f, 3.3e38f};
  for (const float size : sizes) {
    if (!std::isfinite(static_cast<float>(static_cast<T>(size)))) continue;
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const bool mixed : {false, true}) {
        SCOPED_TRACE(fmt::format("{}, smoothing {}, mixed {}", size, smoothing, mixed));
        Case<T> c{std::vector<T>(7), {4}, 1, smoothing};
        Random random(7, Purpose::generate, 0, 0);
        for (T& logit : c.logits) logit = size * random.uniform(-1.0f, 1.0f);
        c.logits[2] = size;
        c.logits[4] = -size;
        if (mixed) c.others = {1}, c.weights = {0.7f};
        const Outcome<T> outcome(c);
        EXPECT_EQ(outcome.score.diverged, 0);
        EXPECT_NEAR(outcome.score.loss() / reference_loss(c, 0, row_of(c, 0)), 1, 1e-6);
        for (const T value : outcome.gradient)
          EXPECT_TRUE(std::isfinite(static_cast<float>(value)));
      }
    }
  }
}

TEST(Score, EveryFiniteLogitHasALoss) {
  check_spread_logits<float>();
  check_spread_logits<Bfloat16>();
}

TEST(Score, CountsALossOfNan) {
  for (const float smoothing : {0.0f, 0.1f}) {
    for (const float bad : {kNan, kInfinity}) {
      const Score score = Outcome<float>({{1, 0, bad, 0}, {0, 1}, 0, smoothing}).score;
      EXPECT_EQ(score.diverged, 1) << bad;
      EXPECT_EQ(score.samples, 2);
      EXPECT_TRUE(std::isnan(score.loss()));
    }
  }
  EXPECT_TRUE(std::isnan(loss_of({-kInfinity, 0}, 0))) << "of the label";
}

}  // namespace
}  // namespace lockstep
