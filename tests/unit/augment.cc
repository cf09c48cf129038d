// The one-pass pipeline against the tutorial's steps done one after the other in double precision.
#include "src/data/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr int kValues = kCropSide * kCropSide * kImageChannels;

std::vector<std::uint8_t> random_image(std::uint32_t number) {
  Random random(11, Purpose::generate, 0, number);
  std::vector<std::uint8_t> image(kImageValues);
  // Every image has its own range of values, so that means and deviations differ.
  const std::uint32_t low = random.below(100), range = 1 + random.below(156);
  for (std::uint8_t& value : image) value = static_cast<std::uint8_t>(low + random.below(range));
  return image;
}

std::vector<double> reference(const std::vector<std::uint8_t>& image, const Augmentation& how) {
  std::vector<double> y(kValues);
  const auto at = [&](int row, int column, int channel) -> double& {
    return y[(row * kCropSide + column) * kImageChannels + channel];
  };
  for (int c = 0; c < kImageChannels; ++c) {
    for (int row = 0; row < kCropSide; ++row) {
      for (int column = 0; column < kCropSide; ++column) {
        const auto inside = [](int i) { return i < 0 ? -i : i > 31 ? 62 - i : i; };
        at(row, column, c) =
            image[c * 1024 + inside(how.top + row) * 32 + inside(how.left + column)];
      }
    }
  }
  if (how.flip) {
    for (int row = 0; row < kCropSide; ++row) {
      for (int column = 0; column < kCropSide / 2; ++column) {
        for (int c = 0; c < kImageChannels; ++c)
          std::swap(at(row, column, c), at(row, 23 - column, c));
      }
    }
  }
  for (double& value : y) value += how.brightness;
  for (int c = 0; c < kImageChannels; ++c) {
    double mean = 0;
    for (int i = 0; i < 576; ++i) mean += y[i * kImageChannels + c] / 576;
    for (int i = 0; i < 576; ++i) {
      double& value = y[i * kImageChannels + c];
      value = (value - mean) * how.contrast + mean;
    }
  }
  double mean = 0, variance = 0;
  for (const double value : y) mean += value / kValues;
  for (const double value : y) variance += (value - mean) * (value - mean) / kValues;
  const double divisor = std::max(std::sqrt(variance), 1 / std::sqrt(1728.0));
  for (double& value : y) value = (value - mean) / divisor;
  return y;
}

void expect_near(const std::vector<float>& got, const std::vector<double>& want, double tolerance) {
  for (int i = 0; i < kValues; ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

TEST(Augment, EqualsTheStepByStepReference) {
  std::vector<float> got(kValues);
  for (std::uint32_t number = 0; number < 200; ++number) {
    const auto image = random_image(number);
    Random random(3, Purpose::augment, 5, number);
    const Augmentation how = Augmentation::draw(random);
    augment(image.data(), how, got.data(), Type::f32);
    expect_near(got, reference(image, how), 1e-4);
  }
}

TEST(Augment, CropsBeyondTheEdgesSeeTheImageReflected) {
  std::vector<float> got(kValues);
  std::set<int> tops;
  for (std::uint32_t number = 0; number < 200; ++number) {
    const auto image = random_image(number);
    Random random(3, Purpose::augment, 5, number), same = random, again = random;
    const Augmentation how = Augmentation::draw(random, 6);
    EXPECT_EQ(how.top, static_cast<int>(same.below(21)) - 6);
    EXPECT_EQ(how.left, static_cast<int>(same.below(21)) - 6);
    tops.insert(how.top);
    read_image(image.data(), &again, got.data(), Type::f32, 6);
    expect_near(got, reference(image, how), 1e-4);
  }
  EXPECT_EQ(*tops.begin(), -6);
  EXPECT_EQ(*tops.rbegin(), 14);
}

TEST(Augment, ReadsWithAndWithoutRandom) {
  const auto image = random_image(1);
  std::vector<float> got(kValues), want(kValues);
  read_image(image.data(), nullptr, got.data(), Type::f32);
  Augmentation evaluation;
  evaluation.top = evaluation.left = 4;
  expect_near(got, reference(image, evaluation), 1e-4);

  Random one(3, Purpose::augment, 0, 0), two(3, Purpose::augment, 0, 0);
  read_image(image.data(), &one, got.data(), Type::f32);
  augment(image.data(), Augmentation::draw(two), want.data(), Type::f32);
  EXPECT_EQ(got, want);
}

TEST(Augment, AnEvenImageIsDividedByTheFloorOfTheDeviation) {
  std::vector<std::uint8_t> image(kImageValues, 200);
  std::vector<float> got(kValues);
  read_image(image.data(), nullptr, got.data(), Type::f32);
  expect_near(got, std::vector<double>(kValues, 0.0), 2e-3);
  image[1024 + 4 * 32 + 4] =
      201;  // green, first pixel of the central crop: the deviation is 1 / sqrt(1728) still
  read_image(image.data(), nullptr, got.data(), Type::f32);
  EXPECT_NEAR(got[1], (1 - 1 / 1728.0) * std::sqrt(1728.0), 2e-3);
  EXPECT_NEAR(got[0], -std::sqrt(1728.0) / 1728, 2e-3);
}

TEST(Augment, Bfloat16IsTheRoundedFloat) {
  const auto image = random_image(2);
  Random random(3, Purpose::augment, 0, 2);
  const Augmentation how = Augmentation::draw(random);
  std::vector<float> floats(kValues);
  std::vector<Bfloat16> halves(kValues);
  augment(image.data(), how, floats.data(), Type::f32);
  augment(image.data(), how, halves.data(), Type::bf16);
  for (int i = 0; i < kValues; ++i) ASSERT_EQ(halves[i].bits, Bfloat16(floats[i]).bits);
}

// The order and the ranges are part of the meaning of a seed.
TEST(Augment, DrawsInTheDocumentedOrder) {
  for (std::uint32_t number = 0; number < 100; ++number) {
    Random random(9, Purpose::augment, 1, number), same(9, Purpose::augment, 1, number);
    const Augmentation how = Augmentation::draw(random);
    EXPECT_EQ(how.top, static_cast<int>(same.below(9)));
    EXPECT_EQ(how.left, static_cast<int>(same.below(9)));
    EXPECT_EQ(how.flip, same.below(2) == 1);
    EXPECT_EQ(how.brightness, same.uniform(-63.0f, 63.0f));
    EXPECT_EQ(how.contrast, same.uniform(0.2f, 1.8f));
    EXPECT_EQ(random.next(), same.next());
  }
}

TEST(Augment, CoversItsRanges) {
  std::set<std::pair<int, int>> places;
  int flips = 0;
  float brightness[2] = {0, 0}, contrast[2] = {1, 1};
  constexpr int kDraws = 4000;
  for (std::uint32_t number = 0; number < kDraws; ++number) {
    Random random(9, Purpose::augment, 2, number);
    const Augmentation how = Augmentation::draw(random);
    places.insert({how.top, how.left});
    flips += how.flip;
    brightness[0] = std::min(brightness[0], how.brightness);
    brightness[1] = std::max(brightness[1], how.brightness);
    contrast[0] = std::min(contrast[0], how.contrast);
    contrast[1] = std::max(contrast[1], how.contrast);
  }
  EXPECT_EQ(places.size(), 81u);
  EXPECT_EQ(*places.begin(), std::make_pair(0, 0));
  EXPECT_EQ(*places.rbegin(), std::make_pair(8, 8));
  EXPECT_NEAR(flips, kDraws / 2, 200);  // 6 standard deviations
  EXPECT_NEAR(brightness[0], -63, 1);
  EXPECT_NEAR(brightness[1], 63, 1);
  EXPECT_NEAR(contrast[0], 0.2, 0.02);
  EXPECT_NEAR(contrast[1], 1.8, 0.02);
}

}  // namespace
}  // namespace lockstep
