// The loss against a reference in double, its gradient against central differences of that, what
// ties and NaN do to the rank, and scores that do not depend on the order of samples.
#include "net/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/base/random.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

double reference_loss(const std::vector<double>& logits, std::int32_t label) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  return std::log(sum) + highest - logits[label];
}

/// Gradients, score and confusion of rows of `classes` logits.
template <class T>
struct Outcome {
  Outcome(std::vector<T> logits, std::vector<std::int32_t> labels, std::int64_t classes,
          float scale = 1, int threads = 1)
      : gradient(logits.size()), confusion(classes * classes) {
    const auto device = make_cpu_device(threads);
    const auto stream = device->stream();
    const Shape shape{static_cast<std::int64_t>(labels.size()), classes};
    softmax_cross_entropy(*stream, {logits.data(), shape, type_of<T>},
                          {labels.data(), {shape[0]}, Type::i32}, scale,
                          {gradient.data(), shape, type_of<T>}, &score, confusion.data());
  }
  std::vector<T> gradient;
  Score score;
  std::vector<std::int64_t> confusion;
};

TEST(Loss, SmoothedLabelsMatchTheirTargets) {
  const std::vector<double> logits{0.5, -1, 2, 0.25};
  const double smoothing = 0.125;
  double expected = 0;
  for (std::int32_t c = 0; c < 4; ++c)
    expected += (smoothing / 4 + (c == 1 ? 1 - smoothing : 0)) * reference_loss(logits, c);
  std::vector<float> given(logits.begin(), logits.end()), gradient(4);
  const std::int32_t label = 1;
  HostStream stream;
  Score score;
  softmax_cross_entropy(stream, {given.data(), {1, 4}, Type::f32},
                        {const_cast<std::int32_t*>(&label), {1}, Type::i32}, 2,
                        {gradient.data(), {1, 4}, Type::f32}, &score, nullptr,
                        static_cast<float>(smoothing));
  EXPECT_NEAR(score.loss(), expected, 1e-6);
  EXPECT_EQ(score.top1, 0);
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit);
  for (std::size_t c = 0; c < 4; ++c) {
    const double truth = smoothing / 4 + (c == 1 ? 1 - smoothing : 0);
    EXPECT_NEAR(gradient[c], 2 * (std::exp(logits[c]) / sum - truth), 1e-6);
  }
}

TEST(Loss, MixedLabelsMatchTheirTargets) {
  constexpr std::int64_t kSamples = 30, kClasses = 7;
  constexpr double kStep = 1e-5;
  Random random(4, Purpose::generate, 0, 0);
  std::vector<float> logits, gradient(kSamples * kClasses), weights;
  std::vector<std::int32_t> labels, others;
  for (std::int64_t i = 0; i < kSamples * kClasses; ++i) logits.push_back(2 * random.normal());
  for (std::int64_t n = 0; n < kSamples; ++n) {
    labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
    others.push_back(static_cast<std::int32_t>(random.below(kClasses)));  // the same, at times
    weights.push_back(n == 0 ? 1 : n == 1 ? 0 : n == 2 ? 0.5f : random.uniform());
  }
  for (const float smoothing : {0.0f, 0.125f}) {
    Score score;
    HostStream stream;
    softmax_cross_entropy(stream, {logits.data(), {kSamples, kClasses}, Type::f32},
                          {labels.data(), {kSamples}, Type::i32}, 1,
                          {gradient.data(), {kSamples, kClasses}, Type::f32}, &score, nullptr,
                          smoothing, {others.data(), {kSamples}, Type::i32},
                          {weights.data(), {kSamples}, Type::f32});
    double losses = 0;
    std::int64_t right = 0;
    for (std::int64_t n = 0; n < kSamples; ++n) {
      const auto at = static_cast<std::size_t>(n);
      const auto first = logits.begin() + n * kClasses;
      const std::vector<double> row(first, first + kClasses);
      const auto loss = [&](const std::vector<double>& x) {
        const double weight = weights[at];
        double sum = (1 - smoothing) * (weight * reference_loss(x, labels[at]) +
                                        (1 - weight) * reference_loss(x, others[at]));
        for (std::int32_t c = 0; c < kClasses; ++c)
          sum += smoothing / kClasses * reference_loss(x, c);
        return sum;
      };
      losses += loss(row);
      const std::int32_t heavier = weights[at] < 0.5f ? others[at] : labels[at];
      right += std::max_element(row.begin(), row.end()) - row.begin() == heavier;
      for (std::size_t c = 0; c < kClasses; ++c) {
        std::vector<double> above = row, below = row;
        above[c] += kStep;
        below[c] -= kStep;
        EXPECT_NEAR(gradient[at * kClasses + c], (loss(above) - loss(below)) / (2 * kStep), 1e-6)
            << "sample " << n << ", class " << c << ", smoothing " << smoothing;
      }
    }
    EXPECT_NEAR(score.loss(), losses / kSamples, 1e-6);
    EXPECT_EQ(score.top1, right) << "by the heavier label";
  }
  std::vector<float> plain(gradient.size()), whole(kSamples, 1.0f);
  Score one, two;
  HostStream stream;
  const View x{logits.data(), {kSamples, kClasses}, Type::f32},
      own{labels.data(), {kSamples}, Type::i32}, dx{plain.data(), x.shape, Type::f32},
      same{gradient.data(), x.shape, Type::f32};
  softmax_cross_entropy(stream, x, own, 1, dx, &one, nullptr, 0.125f);
  softmax_cross_entropy(stream, x, own, 1, same, &two, nullptr, 0.125f,
                        {others.data(), {kSamples}, Type::i32},
                        {whole.data(), {kSamples}, Type::f32});
  EXPECT_EQ(one, two) << "a weight of 1 is no mixing";
  EXPECT_EQ(plain, gradient);
  EXPECT_TRUE(mentions(
      error_of([&] { softmax_cross_entropy(stream, x, own, 1, dx, &one, nullptr, 0, {}, own); }),
      {"label", "weight"}));
}

/// The outcome of one row of fp32 logits.
Outcome<float> judge(std::vector<float> logits, std::int32_t label) {
  const auto classes = static_cast<std::int64_t>(logits.size());
  return {std::move(logits), {label}, classes};
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

template <class T>
void check_against_reference(double spread, double tolerance) {
  constexpr std::int64_t kSamples = 40, kClasses = 10;
  constexpr float kScale = 1 / 128.0f;
  constexpr double kStep = 1e-5;
  Random random(1, Purpose::generate, 0, 0);
  std::vector<T> logits;
  std::vector<std::int32_t> labels;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    for (std::int64_t c = 0; c < kClasses; ++c)
      logits.push_back(random.normal() * static_cast<float>(spread));
    labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
  }
  const Outcome<T> outcome(logits, labels, kClasses, kScale);
  double losses = 0;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const std::int32_t label = labels[n];
    std::vector<double> row;
    for (std::int64_t c = 0; c < kClasses; ++c)
      row.push_back(static_cast<float>(logits[n * kClasses + c]));
    const double loss = reference_loss(row, label);
    losses += loss;
    for (std::int64_t c = 0; c < kClasses; ++c) {
      std::vector<double> above = row, below = row;
      above[c] += kStep;
      below[c] -= kStep;
      const double slope =
          (reference_loss(above, label) - reference_loss(below, label)) / (2 * kStep);
      const float gradient = outcome.gradient[n * kClasses + c];
      EXPECT_NEAR(gradient / kScale, slope, tolerance) << "sample " << n << ", class " << c;
    }
  }
  EXPECT_NEAR(outcome.score.loss(), losses / kSamples, 2e-6 * (1 + spread));
}

TEST(Loss, ValueAndGradientMatchDouble) {
  check_against_reference<float>(1, 1e-6);
  check_against_reference<float>(30, 1e-5);
}

TEST(Loss, OfBfloat16LogitsIsExactExceptForRoundedGradients) {
  check_against_reference<Bfloat16>(2, 4e-3);
}

TEST(Loss, DoesNotOverflow) {
  EXPECT_EQ(loss_of({5000, -5000, 0}, 0), 0);
  EXPECT_EQ(loss_of({5000, -5000, 0}, 1), 10000);
  EXPECT_FLOAT_EQ(static_cast<float>(loss_of({-5000, -5000}, 0)), std::log(2.0f));
}

TEST(Loss, ThreadsDoNotChangeIt) {
  std::vector<float> logits(10 * 1000);
  std::vector<std::int32_t> labels(1000);
  Random random(2, Purpose::generate, 0, 0);
  for (float& logit : logits) logit = random.normal();
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random.below(10));
  const Outcome<float> one(logits, labels, 10), three(logits, labels, 10, 1, 3);
  EXPECT_EQ(one.gradient, three.gradient);
  EXPECT_EQ(one.score, three.score);
  EXPECT_EQ(one.confusion, three.confusion);
}

TEST(Loss, WithoutGradientAndConfusionTheScoreIsTheSame) {
  std::vector<float> logits{1, 2, 3};
  std::vector<std::int32_t> labels{1};
  Score score;
  HostStream stream;
  softmax_cross_entropy(stream, {logits.data(), {1, 3}, Type::f32}, {labels.data(), {1}, Type::i32},
                        0, {}, &score);
  EXPECT_EQ(score, judge(logits, 1).score);
  const std::string error = error_of([&] {
    softmax_cross_entropy(stream, {logits.data(), {1, 3}, Type::f32},
                          {labels.data(), {0}, Type::i32}, 0, {}, &score);
  });
  EXPECT_TRUE(mentions(error, {"label"}));
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
  const Score score = Outcome<float>(logits, labels, 10).score;
  EXPECT_EQ(score.samples, 10);
  EXPECT_EQ(score.top1, 1);
  EXPECT_EQ(score.top5, 5);
  EXPECT_EQ(score.top1_share(), 0.1);
  EXPECT_EQ(score.top5_share(), 0.5);
}

TEST(Score, IsTheSameInEveryOrderAndGrouping) {
  constexpr std::int64_t kSamples = 1000, kClasses = 4;
  Random random(3, Purpose::generate, 0, 0);
  std::vector<float> logits;
  std::vector<std::int32_t> labels;
  double sum = 0;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    std::vector<double> row;
    for (std::int64_t c = 0; c < kClasses; ++c) {
      logits.push_back(random.normal() * std::exp2(random.uniform(-20.0f, 5.0f)));
      row.push_back(logits.back());
    }
    labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
    sum += reference_loss(row, labels.back());
  }
  const Score all = Outcome<float>(logits, labels, kClasses).score;
  Score backward;  // one sample after another, the last first
  HostStream stream;
  for (std::int64_t n = kSamples; n-- > 0;) {
    softmax_cross_entropy(stream, {logits.data() + n * kClasses, {1, kClasses}, Type::f32},
                          {labels.data() + n, {1}, Type::i32}, 0, {}, &backward);
  }
  EXPECT_EQ(all, backward);
  EXPECT_NEAR(all.loss(), sum / kSamples, 1e-6);
}

TEST(Score, NoNumberOfHighLossesOverflows) {
  constexpr std::size_t kSamples = 10000;
  std::vector<float> logits;
  for (std::size_t n = 0; n < kSamples; ++n) logits.insert(logits.end(), {99999, 0});
  Score score = Outcome<float>(logits, std::vector<std::int32_t>(kSamples, 1), 2).score;
  EXPECT_EQ(score.loss(), 99999.0);
  EXPECT_EQ(score.diverged, 0);
  // As on many ranks: 2^31 samples of one loss.
  for (const float loss : {0.75f, 17580.5f, 99999.0f, 1e6f, 5e9f, 1e30f, 3e38f}) {
    score = Outcome<float>({loss, 0}, {1}, 2).score;
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
    softmax_cross_entropy(stream, {logits.data(), {1, 2}, Type::f32},
                          {const_cast<std::int32_t*>(&label), {1}, Type::i32}, 0, {}, &score);
    const float highest = std::max(logits[0], 0.0f);
    const float loss = std::log(std::exp(logits[0] - highest) + std::exp(0 - highest)) +
                       (highest - logits[static_cast<std::size_t>(label)]);
    units += std::llround(static_cast<double>(loss) * 0x1p32);
    ASSERT_EQ(score.loss_sum(), static_cast<double>(units) * 0x1p-32) << n;
  }
}

template <class T>
void check_spread_logits() {
  const std::vector<float> sizes{1,    100,   1e4f,  17580, 65504, 2e5f,   1e6f,
                                 3e9f, 1e15f, 4e19f, 1e30f, 1e38f, 3.3e38f};
  Random random(7, Purpose::generate, 0, 0);
  for (const float size : sizes) {
    if (!std::isfinite(static_cast<float>(static_cast<T>(size)))) continue;
    for (const float smoothing : {0.0f, 0.1f}) {
      for (const bool mixed : {false, true}) {
        constexpr std::int64_t kClasses = 7;
        std::vector<T> logits(kClasses), gradient(kClasses);
        for (T& logit : logits) logit = size * random.uniform(-1.0f, 1.0f);
        logits[2] = size;
        logits[4] = -size;
        std::int32_t label = 4, other = 1;
        float weight = 0.7f;
        const std::vector<double> row(logits.begin(), logits.end());
        const double share = mixed ? weight : 1;
        double wanted = (1 - smoothing) * (share * reference_loss(row, label) +
                                           (1 - share) * reference_loss(row, other));
        for (std::int32_t c = 0; c < kClasses; ++c)
          wanted += smoothing / kClasses * reference_loss(row, c);
        HostStream stream;
        Score score;
        const View two = mixed ? View{&other, {1}, Type::i32} : View{},
                   weights = mixed ? View{&weight, {1}, Type::f32} : View{};
        softmax_cross_entropy(
            stream, {logits.data(), {1, kClasses}, type_of<T>}, {&label, {1}, Type::i32}, 1,
            {gradient.data(), {1, kClasses}, type_of<T>}, &score, nullptr, smoothing, two, weights);
        EXPECT_EQ(score.diverged, 0);
        EXPECT_NEAR(score.loss() / wanted, 1, 1e-6)
            << size << ", smoothing " << smoothing << (mixed ? ", mixed" : "");
        for (const T value : gradient) EXPECT_TRUE(std::isfinite(static_cast<float>(value)));
      }
    }
  }
}

TEST(Score, EveryFiniteLogitHasALoss) {
  check_spread_logits<float>();
  check_spread_logits<Bfloat16>();
  check_spread_logits<Half>();
}

TEST(Score, CountsALossOfNan) {
  for (const float smoothing : {0.0f, 0.1f}) {
    for (const float bad : {kNan, kInfinity}) {
      std::vector<float> logits{1, 0, bad, 0};
      std::vector<std::int32_t> labels{0, 1};
      Score score;
      HostStream stream;
      softmax_cross_entropy(stream, {logits.data(), {2, 2}, Type::f32},
                            {labels.data(), {2}, Type::i32}, 0, {}, &score, nullptr, smoothing);
      EXPECT_EQ(score.diverged, 1) << bad;
      EXPECT_EQ(score.samples, 2);
      EXPECT_TRUE(std::isnan(score.loss()));
    }
  }
  EXPECT_TRUE(std::isnan(loss_of({-kInfinity, 0}, 0))) << "of the label";
}

}  // namespace
}  // namespace lockstep
