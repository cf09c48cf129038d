// The loss against a reference in double, its gradient against central differences of that, what
// ties and NaN do to the rank, and scores that do not depend on the order of samples.
#include "net/loss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "src/random.h"
#include "tests/support/files.h"

namespace lockstep {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

double reference_loss(const std::vector<double>& logits, std::int32_t label) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - highest);
  return std::log(sum) + highest - logits[static_cast<std::size_t>(label)];
}

/// Verdicts and gradients of rows of `classes` logits.
template <class T>
struct Outcome {
  Outcome(std::vector<T> logits, std::vector<std::int32_t> labels, std::int64_t classes,
          float scale = 1, int threads = 1)
      : gradient(logits.size()), results(labels.size()) {
    HostStream stream(threads);
    const Shape shape{static_cast<std::int64_t>(labels.size()), classes};
    softmax_cross_entropy(stream, {logits.data(), shape, type_of<T>},
                          {labels.data(), {shape[0]}, Type::i32}, scale,
                          {gradient.data(), shape, type_of<T>}, results);
  }
  std::vector<T> gradient;
  std::vector<SampleResult> results;
};

/// The result on one row of fp32 logits.
SampleResult judge(std::vector<float> logits, std::int32_t label) {
  const auto classes = static_cast<std::int64_t>(logits.size());
  return Outcome<float>(std::move(logits), {label}, classes).results[0];
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
  for (std::int64_t n = 0; n < kSamples; ++n) {
    const std::int32_t label = labels[static_cast<std::size_t>(n)];
    std::vector<double> row;
    for (std::int64_t c = 0; c < kClasses; ++c)
      row.push_back(static_cast<float>(logits[static_cast<std::size_t>(n * kClasses + c)]));
    const double loss = reference_loss(row, label);
    EXPECT_NEAR(outcome.results[static_cast<std::size_t>(n)].loss, loss, 2e-6 * (1 + spread));
    for (std::int64_t c = 0; c < kClasses; ++c) {
      std::vector<double> above = row, below = row;
      above[static_cast<std::size_t>(c)] += kStep;
      below[static_cast<std::size_t>(c)] -= kStep;
      const double slope =
          (reference_loss(above, label) - reference_loss(below, label)) / (2 * kStep);
      const float gradient = outcome.gradient[static_cast<std::size_t>(n * kClasses + c)];
      EXPECT_NEAR(gradient / kScale, slope, tolerance) << "sample " << n << ", class " << c;
    }
  }
}

TEST(Loss, ValueAndGradientMatchDouble) {
  check_against_reference<float>(1, 1e-6);
  check_against_reference<float>(30, 1e-5);
}

TEST(Loss, OfBfloat16LogitsIsExactButForTheGradientsRounding) {
  check_against_reference<Bfloat16>(2, 4e-3);
}

TEST(Loss, DoesNotOverflow) {
  EXPECT_FLOAT_EQ(judge({5000, -5000, 0}, 0).loss, 0.0f);
  EXPECT_FLOAT_EQ(judge({5000, -5000, 0}, 1).loss, 10000.0f);
  EXPECT_FLOAT_EQ(judge({-5000, -5000}, 0).loss, std::log(2.0f));
}

TEST(Loss, ThreadsDoNotChangeIt) {
  std::vector<float> logits(10 * 1000);
  std::vector<std::int32_t> labels(1000);
  Random random(2, Purpose::generate, 0, 0);
  for (float& logit : logits) logit = random.normal();
  for (std::int32_t& label : labels) label = static_cast<std::int32_t>(random.below(10));
  const Outcome<float> one(logits, labels, 10), three(logits, labels, 10, 1, 3);
  EXPECT_EQ(one.gradient, three.gradient);
  for (std::size_t n = 0; n < labels.size(); ++n) {
    EXPECT_EQ(one.results[n].loss, three.results[n].loss);
    EXPECT_EQ(one.results[n].rank, three.results[n].rank);
  }
}

TEST(Loss, WithoutAGradientTheVerdictsAreTheSame) {
  std::vector<float> logits{1, 2, 3};
  std::vector<std::int32_t> labels{1};
  std::vector<SampleResult> results(1);
  HostStream stream;
  softmax_cross_entropy(stream, {logits.data(), {1, 3}, Type::f32}, {labels.data(), {1}, Type::i32},
                        0, {}, results);
  EXPECT_EQ(results[0].loss, judge(logits, 1).loss);
  EXPECT_EQ(results[0].rank, 1);
  EXPECT_NE(error_of([&] {
              softmax_cross_entropy(stream, {logits.data(), {1, 3}, Type::f32},
                                    {labels.data(), {1}, Type::i32}, 0, {}, {});
            }).find("result"),
            std::string::npos);
}

TEST(SampleResult, RankCountsTheClassesAbove) {
  const std::vector<float> logits{0.5f, 3, -1, 2, 7, 1};
  const int ranks[] = {4, 1, 5, 2, 0, 3};
  for (std::int32_t label = 0; label < 6; ++label) {
    EXPECT_EQ(judge(logits, label).rank, ranks[label]);
    EXPECT_EQ(judge(logits, label).predicted, 4);
  }
}

TEST(SampleResult, OfEqualScoresTheLowerClassRanksFirst) {
  for (std::int32_t label = 0; label < 10; ++label) {
    const SampleResult result = judge(std::vector<float>(10, 1.5f), label);
    EXPECT_EQ(result.rank, label);
    EXPECT_EQ(result.predicted, 0);
  }
  EXPECT_EQ(judge({1, 2, 2, 0}, 1).rank, 0);
  EXPECT_EQ(judge({1, 2, 2, 0}, 2).rank, 1);
  EXPECT_EQ(judge({1, 2, 2, 0}, 2).predicted, 1);
}

TEST(SampleResult, NanCountsAgainstTheLabel) {
  // A network that has diverged must not look right by luck.
  for (std::int32_t label = 0; label < 3; ++label) {
    EXPECT_EQ(judge({kNan, kNan, kNan}, label).rank, 2);
    EXPECT_TRUE(std::isnan(judge({kNan, kNan, kNan}, label).loss));
  }
  EXPECT_EQ(judge({kNan, 5, 1}, 1).rank, 1);
  EXPECT_EQ(judge({5, 1, kNan}, 0).rank, 1);
  EXPECT_TRUE(std::isnan(judge({kNan, 5, 1}, 1).loss));
  EXPECT_EQ(judge({kNan, 5, 1}, 0).rank, 2);
}

TEST(Score, CountsTop1AndTop5) {
  Score score;
  for (std::int32_t rank = 0; rank < 10; ++rank) score.add({1.0f, rank, 0});
  EXPECT_EQ(score.samples, 10);
  EXPECT_EQ(score.top1, 1);
  EXPECT_EQ(score.top5, 5);
  EXPECT_EQ(score.top1_share(), 0.1);
  EXPECT_EQ(score.top5_share(), 0.5);
  EXPECT_EQ(score.loss(), 1.0);
}

TEST(Score, IsTheSameInEveryOrderAndGrouping) {
  Random random(3, Purpose::generate, 0, 0);
  std::vector<SampleResult> results;
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    results.push_back({-std::log(1 - random.uniform()) * std::exp2(random.uniform(-20.0f, 5.0f)),
                       static_cast<std::int32_t>(random.below(10)), 0});
    sum += results.back().loss;
  }
  Score forward, backward, parts[3];
  for (const SampleResult& result : results) forward.add(result);
  for (std::size_t i = results.size(); i-- > 0;) backward.add(results[i]);
  for (std::size_t i = 0; i < results.size(); ++i) parts[i % 3].add(results[i]);
  EXPECT_EQ(forward.loss_units, backward.loss_units);
  EXPECT_EQ(forward.loss_units, parts[0].loss_units + parts[1].loss_units + parts[2].loss_units);
  EXPECT_EQ(forward.top5, parts[0].top5 + parts[1].top5 + parts[2].top5);
  EXPECT_NEAR(forward.loss(), sum / 10000, 0x1p-32);
}

TEST(Score, ManyHighLossesDoNotOverflow) {
  Score score;
  for (int i = 0; i < 10000; ++i) score.add({99999.0f, 9, 0});
  EXPECT_EQ(score.loss(), 99999.0);
  EXPECT_EQ(score.diverged, 0);
}

TEST(Score, ALossWithoutAValueIsNotLost) {
  for (const float bad : {kNan, kInfinity, 2e5f}) {
    Score score;
    score.add({1.0f, 0, 0});
    score.add({bad, 9, 0});
    EXPECT_EQ(score.diverged, 1);
    EXPECT_EQ(score.samples, 2);
    EXPECT_TRUE(std::isnan(score.loss()));
  }
}

}  // namespace
}  // namespace lockstep
