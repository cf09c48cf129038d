// Cutout, random erasing, mixup and CutMix: what is drawn for a sample depends on nothing else, and
// is as their papers say.
#include "src/data/mixing.h"

#include <gtest/gtest.h>

#include <set>

#include "src/data/pixel_edits.h"

namespace lockstep {
namespace {

TEST(Augmentations, HaveStreamsOfTheirOwn) {
  std::set<Purpose> streams;
  int count = 0;
  const auto add = [&]<class Augmentation>(const Augmentation&) {
    streams.insert(Augmentation::kStream);
    EXPECT_GT(Augmentation::kStream, Purpose::generate);
    ++count;
  };
  PixelAugmentations().each(add);
  Mixing().each(add);
  EXPECT_EQ(std::ssize(streams), count);
}

TEST(Cutout, IsASquareAroundAnyPixel) {
  constexpr int kSide = 5, kHeight = 6, kWidth = 9;
  std::set<std::pair<int, int>> centres;
  for (std::uint32_t sample = 0; sample < 2000; ++sample) {
    Random random(1, Cutout::kStream, 2, sample);
    const Hole cut = Cutout{kSide}.draw(random, kHeight, kWidth);
    centres.insert({cut.top + 2, cut.left + 2});
    for (int row = -3; row < kHeight + 3; ++row)
      for (int column = -3; column < kWidth + 3; ++column)
        EXPECT_EQ(cut.has(row, column), row >= cut.top && row <= cut.top + 4 &&
                                            column >= cut.left && column <= cut.left + 4);
  }
  EXPECT_EQ(centres.size(), std::size_t{kHeight * kWidth});
  EXPECT_EQ(*centres.begin(), std::pair(0, 0));
  EXPECT_EQ(*centres.rbegin(), std::pair(kHeight - 1, kWidth - 1));
  EXPECT_FALSE(Hole{}.has(0, 0)) << "as constructed there is none";
}

TEST(Erasing, IsARectangleWithinTheImage) {
  int none = 0;
  double area = 0;
  for (std::uint32_t sample = 0; sample < 4000; ++sample) {
    Random random(1, RandomErasing::kStream, 2, sample);
    const Hole cut = RandomErasing{0.25f}.draw(random, 40, 60);
    none += cut.height == 0;
    area += cut.height * cut.width / 2400.0;
    EXPECT_TRUE(cut.top >= 0 && cut.left >= 0 && cut.top + cut.height <= 40 &&
                cut.left + cut.width <= 60);
    if (cut.height < 8 || cut.width < 8) continue;
    const double ratio = double{1} * cut.height / cut.width;
    EXPECT_GT(ratio, 0.26);
    EXPECT_LT(ratio, 3.7);
    EXPECT_LT(cut.height * cut.width, 0.36 * 2400);
  }
  EXPECT_NEAR(none, 3000, 120);
  EXPECT_NEAR(area / (4000 - none), 0.17, 0.02);
}

TEST(CutMix, PastesTheAreaThatItsWeightLeaves) {
  const Mixing cutmix{{}, {1}}, both{{0.4f}, {1}};
  double sum = 0;
  int pasted = 0;
  for (std::uint32_t sample = 0; sample < 4000; ++sample) {
    const Mix mix = draw_mix(cutmix, 1, 2, sample, 50, 30, 40);
    int own = 0;
    for (int row = 0; row < 30; ++row)
      for (int column = 0; column < 40; ++column) own += mix.at(row, column, 1e-9f, 1) == 1e-9f;
    EXPECT_NEAR(mix.weight, own / 1200.0, 1e-6);
    sum += mix.weight;
    pasted += draw_mix(both, 1, 2, sample, 50, 30, 40).pasted.height > 0;
  }
  EXPECT_NEAR(sum / 4000, 0.69, 0.03) << "parts of rectangles lie outside";
  EXPECT_NEAR(pasted, 1950, 150) << "one of both";
  const Mix mixup = draw_mix({{0.4f}, {}}, 1, 2, 3, 50, 30, 40), same = draw_mix(1, 2, 3, 50, 0.4f);
  EXPECT_EQ(mixup.weight, same.weight);
  EXPECT_EQ(mixup.at(0, 0, 4, 8), mixed(same.weight, 4, 8));
}

TEST(Mix, HasAnyPartnerAndAWeightOfBeta) {
  constexpr int kDraws = 20000;
  for (const float alpha : {0.1f, 0.4f, 1.0f, 4.0f}) {
    double sum = 0, squares = 0;
    std::set<std::uint32_t> partners;
    for (std::uint32_t sample = 0; sample < kDraws; ++sample) {
      const Mix mix = draw_mix(1, 2, sample, 50, alpha);
      ASSERT_GE(mix.weight, 0);
      ASSERT_LE(mix.weight, 1);
      partners.insert(mix.partner);
      sum += mix.weight;
      squares += double{mix.weight} * mix.weight;
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.02) << alpha;  // 6 standard deviations at most
    EXPECT_NEAR(variance, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
    EXPECT_EQ(partners.size(), 50u);
    EXPECT_EQ(*partners.rbegin(), 49u);
  }
}

TEST(Mix, IsFiniteForATinyAlpha) {
  for (std::uint32_t sample = 0; sample < 100; ++sample) {
    const float weight = draw_mix(1, 2, sample, 50, 1e-6f).weight;
    EXPECT_TRUE(weight == 0 || weight == 1) << weight;
  }
}

TEST(Mix, BelongsToItsSampleAndEpoch) {
  const Mix mix = draw_mix(1, 2, 3, 1000, 0.5f), same = draw_mix(1, 2, 3, 1000, 0.5f);
  EXPECT_EQ(mix.partner, same.partner);
  EXPECT_EQ(mix.weight, same.weight);
  for (const Mix& other : {draw_mix(2, 2, 3, 1000, 0.5f), draw_mix(1, 3, 3, 1000, 0.5f),
                           draw_mix(1, 2, 4, 1000, 0.5f)}) {
    EXPECT_NE(mix.weight, other.weight);
  }
  EXPECT_EQ(mixed(0.25f, 4, 8), 7);
  EXPECT_EQ(mixed(1, 4, 8), 4);
  EXPECT_EQ(mixed(0, 4, 8), 8);
}

}  // namespace
}  // namespace lockstep
