// Class weights: the loss against a reference in double, its gradient against central differences
// of that, and the same bits on any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "net/loss.h"
#include "src/base/random.h"

namespace lockstep {
namespace {

constexpr std::int64_t kClasses = 5;

struct Case {
  std::vector<float> logits;
  std::vector<std::int32_t> labels, others = {};
  std::vector<float> mix = {}, class_weights = {};
  float smoothing = 0;
  int threads = 1;
};

struct Outcome {
  explicit Outcome(Case c) : gradient(c.logits.size()) {
    const auto device = make_cpu_device(c.threads);
    const auto stream = device->stream();
    const auto samples = std::ssize(c.labels);
    const Shape shape{samples, kClasses}, rows{samples};
    LossSpec spec{.logits = {c.logits.data(), shape, Type::f32},
                  .labels = {c.labels.data(), rows, Type::i32},
                  .score = &score,
                  .gradient = {gradient.data(), shape, Type::f32}};
    spec.modifiers.LabelSmoothing::value = c.smoothing;
    if (!c.mix.empty()) {
      static_cast<MixedLabels&>(spec.modifiers) = {{c.others.data(), rows, Type::i32},
                                                   {c.mix.data(), rows, Type::f32}};
    }
    if (!c.class_weights.empty()) {
      spec.modifiers.ClassWeights::weights = {
          c.class_weights.data(), {std::ssize(c.class_weights)}, Type::f32};
    }
    softmax_cross_entropy(*stream, spec);
  }
  std::vector<float> gradient;
  Score score;
};

double probability(const std::vector<double>& row, std::int64_t k) {
  const double highest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double logit : row) sum += std::exp(logit - highest);
  return std::exp(row[k] - highest) / sum;
}

/// The weighted loss of one label.
double reference_loss(const Case& c, const std::vector<double>& row, std::int32_t label) {
  const double weight = c.class_weights.empty() ? 1 : c.class_weights[label];
  const double p = probability(row, label);
  double loss = -(1 - c.smoothing) * std::log(p);
  for (std::int64_t k = 0; k < kClasses; ++k)
    loss -= c.smoothing / kClasses * std::log(probability(row, k));
  return weight * loss;
}

double reference_loss(const Case& c, std::size_t n, const std::vector<double>& row) {
  const double own = c.mix.empty() ? 1 : c.mix[n];
  double loss = own * reference_loss(c, row, c.labels[n]);
  if (own < 1) loss += (1 - own) * reference_loss(c, row, c.others[n]);
  return loss;
}

void expect_reference(const Case& c) {
  constexpr double kStep = 1e-5;
  const Outcome outcome(c);
  double losses = 0;
  for (std::size_t n = 0; n < c.labels.size(); ++n) {
    const auto begin = c.logits.begin() + static_cast<std::ptrdiff_t>(n) * kClasses;
    const std::vector<double> row(begin, begin + kClasses);
    losses += reference_loss(c, n, row);
    for (std::size_t k = 0; k < row.size(); ++k) {
      std::vector<double> above = row, below = row;
      above[k] += kStep;
      below[k] -= kStep;
      const double slope =
          (reference_loss(c, n, above) - reference_loss(c, n, below)) / (2 * kStep);
      EXPECT_NEAR(outcome.gradient[n * row.size() + k], slope, 2e-6 * (1 + std::abs(slope)))
          << "sample " << n << ", class " << k << ", smoothing " << c.smoothing;
    }
  }
  EXPECT_NEAR(outcome.score.loss_sum(), losses, 1e-6 * (1 + losses));
}

Case random_case(std::int64_t samples) {
  Random random(3, Purpose::generate, 0, 0);
  Case c;
  for (std::int64_t n = 0; n < samples; ++n) {
    for (std::int64_t k = 0; k < kClasses; ++k) c.logits.push_back(random.normal() * 2);
    c.labels.push_back(static_cast<std::int32_t>(random.below(kClasses)));
  }
  return c;
}

void mix(Case& c) {
  Random random(4, Purpose::generate, 0, 0);
  for (std::size_t n = 0; n < c.labels.size(); ++n) {
    c.others.push_back(static_cast<std::int32_t>(random.below(kClasses)));
    c.mix.push_back(n == 0 ? 1 : n == 1 ? 0 : n == 2 ? 0.5f : random.uniform());
  }
}

TEST(ClassWeights, MatchDouble) {
  for (const bool mixed : {false, true}) {
    for (const float smoothing : {0.0f, 0.125f}) {
      Case c = random_case(40);
      if (mixed) mix(c);
      c.smoothing = smoothing;
      c.class_weights = {0.25f, 3, 1, 0, 17.5f};
      expect_reference(c);
    }
  }
}

TEST(ClassWeights, OfOneChangeNoBit) {
  for (const bool mixed : {false, true}) {
    Case c = random_case(100);
    if (mixed) mix(c);
    c.smoothing = 0.1f;
    const Outcome plain(c);
    c.class_weights.assign(kClasses, 1);
    const Outcome weighted(c);
    EXPECT_EQ(plain.score.top1, weighted.score.top1);
    if (mixed) continue;  // the shares of mixed labels are rounded once more
    EXPECT_EQ(plain.score, weighted.score);
    EXPECT_EQ(plain.gradient, weighted.gradient);
  }
}

TEST(ClassWeights, ChangeNoRank) {
  Case c = random_case(100);
  mix(c);
  const Score plain = Outcome(c).score;
  c.class_weights = {0, 100, 0.01f, 0, 3};
  const Score weighted = Outcome(c).score;
  EXPECT_EQ(weighted.samples, plain.samples);
  EXPECT_EQ(weighted.top1, plain.top1);
}

TEST(ClassWeights, ThreadsDoNotChangeThem) {
  Case c = random_case(1000);
  c.class_weights = {1, 2, 3, 4, 5};
  const Outcome one(c);
  c.threads = 3;
  const Outcome three(c);
  EXPECT_EQ(one.gradient, three.gradient);
  EXPECT_EQ(one.score, three.score);
}

}  // namespace
}  // namespace lockstep
